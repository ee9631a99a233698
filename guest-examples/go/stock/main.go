// A question, and a tool of the guest that the model calls to answer it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"spear.example/guests/spear"
)

var parts = map[string]int{"bearing": 14, "gasket": 0, "rotor": 3}

func stock(arguments json.RawMessage) (any, error) {
	var wanted struct{ Part string }
	if err := json.Unmarshal(arguments, &wanted); err != nil {
		return nil, err
	}
	count, known := parts[wanted.Part]
	if !known {
		return nil, errors.New("no such part")
	}
	return map[string]int{"stock": count}, nil
}

func ask(question string) (string, error) {
	chat, err := spear.NewChat()
	if err != nil {
		return "", err
	}
	defer chat.Close()
	tool := `{"name":"stock","description":"How many of a part are there.",
		"parameters":{"type":"object","properties":{"part":{"type":"string"}},"required":["part"]}}`
	if err := chat.Tool(tool, stock); err != nil {
		return "", err
	}
	if err := chat.Say("user", question); err != nil {
		return "", err
	}
	return chat.Send()
}

func main() {
	question := "Are there four rotors?"
	if len(os.Args) > 1 {
		question = os.Args[1]
	}
	answer, err := ask(question)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the model did not answer:", err)
		os.Exit(1)
	}
	fmt.Println(answer)
}
