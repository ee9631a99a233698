//go:build wasip1

package spear

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ToolFunc handles one tool call. Its result becomes JSON; an error is reported to the model.
type ToolFunc func(arguments json.RawMessage) (any, error)

// Chat is a conversation with the model.
type Chat struct {
	fd    int32
	tools map[string]ToolFunc
}

func NewChat() (*Chat, error) {
	fd := cchatCreate()
	return &Chat{fd, map[string]ToolFunc{}}, check(fd)
}

func (c *Chat) Close() { cchatClose(c.fd) }

// Say adds a message; roles are system, user and assistant.
func (c *Chat) Say(role, text string) error {
	rolePtr, roleLen := pass(role)
	textPtr, textLen := pass(text)
	return check(cchatWriteMsg(c.fd, rolePtr, roleLen, textPtr, textLen))
}

// Tool offers a function to the model. The definition is {"name":…,"description":…,"parameters":{…}}.
func (c *Chat) Tool(definition string, run ToolFunc) error {
	var named struct{ Name string }
	if err := json.Unmarshal([]byte(definition), &named); err != nil {
		return err
	}
	ptr, length := pass(definition)
	c.tools[named.Name] = run
	return check(cchatWriteFn(c.fd, handedBack, ptr, length))
}

type toolCall struct{ ID, Name, Arguments string }

type body struct {
	Error   *struct{ Code, Message string }
	Choices []struct {
		Message struct {
			Content json.RawMessage
			Refusal string
		}
	}
	Spear struct {
		Pending []toolCall `json:"pending_tool_calls"`
	} `json:"_spear"`
}

// Send sends the conversation to the model, runs the tools that it calls, and returns its final text.
func (c *Chat) Send() (string, error) {
	for {
		said, err := c.turn()
		if err != nil {
			return "", err
		}
		if said.Error != nil {
			return "", fmt.Errorf("%s: %s", said.Error.Code, said.Error.Message)
		}
		if len(said.Spear.Pending) == 0 {
			return said.text()
		}
		for _, call := range said.Spear.Pending {
			if err := c.answer(call); err != nil {
				return "", err
			}
		}
	}
}

func (c *Chat) turn() (said body, err error) {
	response := cchatSend(c.fd, sendHandBack)
	if err = check(response); err != nil {
		return
	}
	defer cchatClose(response)
	bytes, err := receive(response)
	if err == nil {
		err = json.Unmarshal(bytes, &said)
	}
	return
}

func (c *Chat) answer(call toolCall) error {
	run, known := c.tools[call.Name]
	if !known {
		run = func(json.RawMessage) (any, error) { return nil, errors.New("no such tool") }
	}
	result, err := run(json.RawMessage(call.Arguments))
	content, failed := json.Marshal(result)
	if err = errors.Join(err, failed); err != nil {
		failure := map[string]string{"code": "tool_exec_failed", "message": err.Error()}
		content, _ = json.Marshal(map[string]any{"error": failure})
	}
	idPtr, idLen := pass(call.ID)
	contentPtr, contentLen := pass(string(content))
	return check(cchatWriteToolResult(c.fd, idPtr, idLen, contentPtr, contentLen))
}

// text is the content of the response, which may consist of parts, or else its refusal.
func (b *body) text() (string, error) {
	if len(b.Choices) == 0 {
		return "", errors.New("no text in the answer")
	}
	message := b.Choices[0].Message
	var text string
	var parts []struct{ Text, Refusal string }
	isText := json.Unmarshal(message.Content, &text) == nil && string(message.Content) != "null"
	if !isText && json.Unmarshal(message.Content, &parts) == nil {
		var joined strings.Builder
		for _, part := range parts {
			joined.WriteString(part.Text + part.Refusal)
		}
		text = joined.String()
	}
	if text == "" {
		text = message.Refusal
	}
	if text == "" && !isText {
		return "", errors.New("no text in the answer")
	}
	return text, nil
}
