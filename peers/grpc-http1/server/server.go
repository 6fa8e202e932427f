// Package server is explained in package client.
package server

import (
	"net/http"

	"google.golang.org/grpc"
)

// Option is accepted and has no effect.
type Option func()

// PreferGRPCWeb has no effect.
func PreferGRPCWeb(bool) Option { return nil }

// CreateDowngradingHandler passes HTTP/2 on to gRPC; everything else goes to the other handler.
func CreateDowngradingHandler(rpc *grpc.Server, other http.Handler, _ ...Option) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if request.ProtoMajor >= 2 {
			rpc.ServeHTTP(answer, request)
		} else {
			other.ServeHTTP(answer, request)
		}
	})
}
