//go:build wasip1

package spear

import "unsafe"

//go:wasmimport spear mcp_open
func mcpOpen(id unsafe.Pointer, idLen uint32) int32

//go:wasmimport spear mcp_list_tools
func mcpListTools(fd int32, out unsafe.Pointer, outLen unsafe.Pointer) int32

//go:wasmimport spear mcp_call_tool
func mcpCallTool(fd int32, name unsafe.Pointer, nameLen uint32, args unsafe.Pointer, argsLen uint32, out unsafe.Pointer, outLen unsafe.Pointer) int32

//go:wasmimport spear mcp_list_resources
func mcpListResources(fd int32, out unsafe.Pointer, outLen unsafe.Pointer) int32

//go:wasmimport spear mcp_read_resource
func mcpReadResource(fd int32, uri unsafe.Pointer, uriLen uint32, out unsafe.Pointer, outLen unsafe.Pointer) int32

//go:wasmimport spear mcp_list_prompts
func mcpListPrompts(fd int32, out unsafe.Pointer, outLen unsafe.Pointer) int32

//go:wasmimport spear mcp_get_prompt
func mcpGetPrompt(fd int32, name unsafe.Pointer, nameLen uint32, args unsafe.Pointer, argsLen uint32, out unsafe.Pointer, outLen unsafe.Pointer) int32

//go:wasmimport spear mcp_close
func mcpClose(fd int32) int32

// Server is an MCP server that the guest calls itself. Results are JSON; a call that is denied or fails is a
// result {"error":…}.
type Server struct{ fd int32 }

func OpenServer(id string) (*Server, error) {
	ptr, length := pass(id)
	fd := mcpOpen(ptr, length)
	return &Server{fd}, check(fd)
}

func (s *Server) Close() { mcpClose(s.fd) }

// Tools returns {"tools":[…]}, the tools that this guest may call.
func (s *Server) Tools() ([]byte, error) { return s.list(mcpListTools) }

// Call calls a tool with a JSON object and waits.
func (s *Server) Call(tool, args string) ([]byte, error) { return s.ask(mcpCallTool, tool, args) }

// Resources returns {"resources":[…],"templates":[…]}, the resources that this guest may read.
func (s *Server) Resources() ([]byte, error) { return s.list(mcpListResources) }

// Read returns {"contents":[…]} of a resource.
func (s *Server) Read(uri string) ([]byte, error) {
	ptr, length := pass(uri)
	return whole(func(out, outLen unsafe.Pointer) int32 { return mcpReadResource(s.fd, ptr, length, out, outLen) })
}

// Prompts returns {"prompts":[…]}, the prompts that this guest may get.
func (s *Server) Prompts() ([]byte, error) { return s.list(mcpListPrompts) }

// Prompt returns {"messages":[…]} of a prompt, whose arguments are a JSON object of strings.
func (s *Server) Prompt(name, args string) ([]byte, error) { return s.ask(mcpGetPrompt, name, args) }

func (s *Server) list(call func(int32, unsafe.Pointer, unsafe.Pointer) int32) ([]byte, error) {
	return whole(func(out, outLen unsafe.Pointer) int32 { return call(s.fd, out, outLen) })
}

func (s *Server) ask(call func(int32, unsafe.Pointer, uint32, unsafe.Pointer, uint32, unsafe.Pointer, unsafe.Pointer) int32, name, args string) ([]byte, error) {
	namePtr, nameLen := pass(name)
	argsPtr, argsLen := pass(args)
	return whole(func(out, outLen unsafe.Pointer) int32 {
		return call(s.fd, namePtr, nameLen, argsPtr, argsLen, out, outLen)
	})
}
