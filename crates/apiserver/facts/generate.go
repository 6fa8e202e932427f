// Writes the facts about Kubernetes' Go types that the API server needs: the protobuf messages of the built-in kinds
// with their JSON names (messages.txt), and the JSON of each kind's zero value (zero-values.txt).
//
// Run it in a module that requires k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver, all v0.34.4:
//
//	go run generate.go messages > messages.txt
//	go run generate.go zero > zero-values.txt
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"sort"
	"strconv"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type kind struct {
	version string
	object  any
}

// stored are the kinds that are kept; the others only travel.
var stored = []kind{
	{"v1", core.Namespace{}}, {"v1", core.Secret{}}, {"v1", core.ConfigMap{}}, {"v1", core.ServiceAccount{}},
	{"v1", core.Service{}}, {"v1", core.Pod{}}, {"v1", core.Node{}}, {"v1", core.Event{}},
	{"v1", core.PersistentVolumeClaim{}}, {"events.k8s.io/v1", events.Event{}},
	{"coordination.k8s.io/v1", coordination.Lease{}}, {"networking.k8s.io/v1", networking.NetworkPolicy{}},
	{"rbac.authorization.k8s.io/v1", rbac.Role{}}, {"rbac.authorization.k8s.io/v1", rbac.ClusterRole{}},
	{"rbac.authorization.k8s.io/v1", rbac.RoleBinding{}}, {"rbac.authorization.k8s.io/v1", rbac.ClusterRoleBinding{}},
	{"apiextensions.k8s.io/v1", apiextensions.CustomResourceDefinition{}},
}

var travelling = []kind{
	{"v1", core.NamespaceList{}}, {"v1", core.SecretList{}}, {"v1", core.ConfigMapList{}}, {"v1", core.ServiceAccountList{}},
	{"v1", core.ServiceList{}}, {"v1", core.PodList{}}, {"v1", core.NodeList{}}, {"v1", core.EventList{}},
	{"v1", core.PersistentVolumeClaimList{}}, {"events.k8s.io/v1", events.EventList{}},
	{"coordination.k8s.io/v1", coordination.LeaseList{}}, {"networking.k8s.io/v1", networking.NetworkPolicyList{}},
	{"rbac.authorization.k8s.io/v1", rbac.RoleList{}}, {"rbac.authorization.k8s.io/v1", rbac.ClusterRoleList{}},
	{"rbac.authorization.k8s.io/v1", rbac.RoleBindingList{}},
	{"rbac.authorization.k8s.io/v1", rbac.ClusterRoleBindingList{}},
	{"apiextensions.k8s.io/v1", apiextensions.CustomResourceDefinitionList{}},
	{"v1", core.Binding{}}, {"policy/v1", policy.Eviction{}}, {"autoscaling/v1", autoscaling.Scale{}},
	{"authentication.k8s.io/v1", authentication.TokenRequest{}}, {"authentication.k8s.io/v1", authentication.TokenReview{}},
	{"authentication.k8s.io/v1", authentication.SelfSubjectReview{}},
	{"authorization.k8s.io/v1", authorization.SubjectAccessReview{}},
	{"authorization.k8s.io/v1", authorization.SelfSubjectAccessReview{}},
	{"authorization.k8s.io/v1", authorization.LocalSubjectAccessReview{}},
	{"authorization.k8s.io/v1", authorization.SelfSubjectRulesReview{}},
	{"meta.k8s.io/v1", meta.DeleteOptions{}}, {"meta.k8s.io/v1", meta.Status{}},
	{"meta.k8s.io/v1", meta.PartialObjectMetadata{}}, {"meta.k8s.io/v1", meta.PartialObjectMetadataList{}},
}

// special types have a JSON form of their own.
var special = map[string]string{
	"meta.Time": "Time", "meta.MicroTime": "MicroTime", "resource.Quantity": "Quantity", "intstr.IntOrString": "IntOrString",
	"runtime.RawExtension": "Raw", "meta.FieldsV1": "Raw", "apiextensions.JSON": "Raw",
	"apiextensions.JSONSchemaPropsOrBool": "OrBool", "apiextensions.JSONSchemaPropsOrArray": "OrArray",
	"apiextensions.JSONSchemaPropsOrStringArray": "OrStringArray",
}

func name(t reflect.Type) string {
	dir, base := path.Split(t.PkgPath())
	if strings.HasPrefix(base, "v1") {
		base = path.Base(strings.TrimSuffix(dir, "/"))
	}
	return base + "." + t.Name()
}

var lines = map[string][]string{}

// spell returns flags and type: p pointer, r repeated, k map, w a named list of strings.
func spell(t reflect.Type) (string, string) {
	switch t.Kind() {
	case reflect.Pointer:
		flags, spelled := spell(t.Elem())
		return "p" + flags, spelled
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "", "bytes"
		}
		flags, spelled := spell(t.Elem())
		if t.Name() != "" {
			return "w" + flags, spelled
		}
		return "r" + flags, spelled
	case reflect.Map:
		flags, spelled := spell(t.Elem())
		return "k" + flags, spelled
	case reflect.Struct:
		visit(t)
		if s, ok := special[name(t)]; ok {
			return "", s
		}
		return "", "@" + name(t)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Float64:
		return "", t.Kind().String()
	}
	panic("unknown type " + t.String())
}

func visit(t reflect.Type) {
	if _, seen := lines[name(t)]; seen {
		return
	}
	if s, ok := special[name(t)]; ok && !strings.HasPrefix(s, "Or") {
		return
	}
	lines[name(t)] = nil
	var out []string
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		tag := field.Tag.Get("protobuf")
		if tag == "" || tag == "-" {
			continue
		}
		number, err := strconv.Atoi(strings.Split(tag, ",")[1])
		if err != nil {
			panic(err)
		}
		js := strings.Split(field.Tag.Get("json"), ",")
		flags, spelled := spell(field.Type)
		if strings.Contains(tag, ",rep,") && strings.HasPrefix(flags, "w") {
			// A named list that is a list on the wire too.
			flags = "r" + flags[1:]
		}
		for _, option := range js[1:] {
			switch option {
			case "omitempty":
				flags += "o"
			case "omitzero":
				flags += "z"
			case "inline":
				flags += "i"
			}
		}
		jsonName := js[0]
		if jsonName == "" || jsonName == "-" {
			jsonName = "-"
		}
		if flags == "" {
			flags = "-"
		}
		out = append(out, fmt.Sprintf("%d %s %s %s", number, jsonName, spelled, flags))
	}
	lines[name(t)] = out
}

func messages() {
	for _, k := range append(append([]kind{}, stored...), travelling...) {
		t := reflect.TypeOf(k.object)
		visit(t)
		fmt.Printf("kind %s %s %s\n", k.version, t.Name(), name(t))
	}
	names := make([]string, 0, len(lines))
	for n := range lines {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Printf("message %s\n%s\n", n, strings.Join(lines[n], "\n"))
	}
}

func zero() {
	for _, k := range stored {
		t := reflect.TypeOf(k.object)
		text, err := json.Marshal(reflect.New(t).Interface())
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %s %s\n", k.version, t.Name(), text)
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "zero" {
		zero()
		return
	}
	messages()
}
