// Writes go.mod and go.sum in the current folder so that a published module's programs build from there.
//
//	go run prepare.go [-own VERSION] [-replace MODULE=FOLDER|MODULE@VERSION]... MODULE VERSION
//
// A module's own replacements count only in its own repository. Those by a published version are taken over; those by a
// folder are dropped, and where the module then asks for a placeholder version, -own says which one was published.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

type version struct{ Path, Version string }

type moduleFile struct {
	Go      string
	Require []version
	Replace []struct{ Old, New version }
}

// An option that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// What a go command prints as JSON.
func ask(into any, arguments ...string) {
	command := exec.Command("go", arguments...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err == nil {
		err = json.Unmarshal(output, into)
	}
	if err != nil {
		log.Fatalf("go %s: %v", strings.Join(arguments, " "), err)
	}
}

func main() {
	log.SetFlags(0)
	var replacements list
	own := flag.String("own", "", "published version of the module's inner modules")
	flag.Var(&replacements, "replace", "MODULE=FOLDER or MODULE=MODULE@VERSION")
	flag.Parse()
	module := version{flag.Arg(0), flag.Arg(1)}

	var downloaded struct{ Dir, GoMod string }
	ask(&downloaded, "mod", "download", "-json", module.Path+"@"+module.Version)
	var file moduleFile
	ask(&file, "mod", "edit", "-json", downloaded.GoMod)

	var text strings.Builder
	fmt.Fprintf(&text, "module thane.test/peer\n\ngo %s\n\nrequire %s %s\n", file.Go, module.Path, module.Version)
	for _, required := range file.Require {
		if required.Version == "v0.0.0" && *own != "" {
			required.Version = *own
			fmt.Fprintf(&text, "replace %s => %s %s\n", required.Path, required.Path, *own)
		}
		fmt.Fprintf(&text, "require %s %s\n", required.Path, required.Version)
	}
	for _, replaced := range file.Replace {
		if replaced.New.Version != "" {
			fmt.Fprintf(&text, "replace %s %s => %s %s\n", replaced.Old.Path, replaced.Old.Version, replaced.New.Path, replaced.New.Version)
		}
	}
	for _, replacement := range replacements {
		path, by, _ := strings.Cut(replacement, "=")
		fmt.Fprintf(&text, "replace %s => %s\n", path, strings.Replace(by, "@", " ", 1))
	}
	sums, err := os.ReadFile(filepath.Join(downloaded.Dir, "go.sum"))
	if err == nil {
		err = os.WriteFile("go.sum", sums, 0o644)
	}
	if err == nil {
		err = os.WriteFile("go.mod", []byte(text.String()), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}
