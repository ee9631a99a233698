// What an MCP server has besides tools, without a model: reads a resource, gets a prompt, and prints both. The same
// program exists in every language.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"spear.example/guests/spear"
)

const uri = "demo://resource/static/document/features.md"

type answer struct {
	Resources, Templates, Prompts []json.RawMessage
	Contents                      []struct{ Text string }
	Messages                      []struct{ Content struct{ Text string } }
	Error                         *struct{ Code, Message string }
}

func must(bytes []byte, err error) (said answer) {
	if err == nil {
		err = json.Unmarshal(bytes, &said)
	}
	if err == nil && said.Error != nil {
		err = fmt.Errorf("%s: %s", said.Error.Code, said.Error.Message)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return
}

func main() {
	server, err := spear.OpenServer("everything")
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot open everything:", err)
		os.Exit(1)
	}
	defer server.Close()
	offered, prompts := must(server.Resources()), must(server.Prompts())
	fmt.Printf("everything has %d resources, %d templates and %d prompts for this guest\n",
		len(offered.Resources), len(offered.Templates), len(prompts.Prompts))
	text, _, _ := strings.Cut(must(server.Read(uri)).Contents[0].Text, "\n")
	fmt.Printf("%s: %s\n", uri, text)
	fmt.Printf("args-prompt: %s\n", must(server.Prompt("args-prompt", `{"city":"Bern"}`)).Messages[0].Content.Text)
}
