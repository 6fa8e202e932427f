// Package client lets argocd-agent build: the library of this name is not in the module registry. Calls over HTTP/1.1
// and WebSocket, which are all it would add, answer with an error; plain gRPC never comes through here.
package client

import (
	"context"
	"crypto/tls"
	"fmt"

	"google.golang.org/grpc"
)

// ConnectOption is accepted and has no effect.
type ConnectOption func()

// UseWebSocket has no effect.
func UseWebSocket(bool) ConnectOption { return nil }

// DialOpts has no effect.
func DialOpts(...grpc.DialOption) ConnectOption { return nil }

// ConnectViaProxy refuses.
func ConnectViaProxy(_ context.Context, endpoint string, _ *tls.Config, _ ...ConnectOption) (*grpc.ClientConn, error) {
	return nil, fmt.Errorf("connecting to %s: built without gRPC over HTTP/1.1", endpoint)
}
