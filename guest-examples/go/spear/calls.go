//go:build wasip1

// Package spear is a small SDK over the hostcalls, for guests in Go. Copy this folder.
package spear

import (
	"fmt"
	"unsafe"
)

// Errno is the error number of a failed hostcall, with the numbers of Linux.
type Errno int32

const enospc Errno = 28

func (e Errno) Error() string { return fmt.Sprintf("errno %d", int32(e)) }

const (
	sendHandBack = 4
	handedBack   = -1
)

//go:wasmimport spear cchat_create
func cchatCreate() int32

//go:wasmimport spear cchat_write_msg
func cchatWriteMsg(fd int32, role unsafe.Pointer, roleLen uint32, content unsafe.Pointer, contentLen uint32) int32

//go:wasmimport spear cchat_write_fn
func cchatWriteFn(fd int32, fnOffset int32, json unsafe.Pointer, jsonLen uint32) int32

//go:wasmimport spear cchat_write_tool_result
func cchatWriteToolResult(fd int32, id unsafe.Pointer, idLen uint32, content unsafe.Pointer, contentLen uint32) int32

//go:wasmimport spear cchat_send
func cchatSend(fd int32, flags int32) int32

//go:wasmimport spear cchat_recv
func cchatRecv(fd int32, out unsafe.Pointer, outLen unsafe.Pointer) int32

//go:wasmimport spear cchat_close
func cchatClose(fd int32) int32

// pass returns the address and the length of a text, for the host.
func pass(text string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(text)), uint32(len(text))
}

func check(rc int32) error {
	if rc < 0 {
		return Errno(-rc)
	}
	return nil
}

// receive returns the whole body of a response, of any length.
func receive(response int32) ([]byte, error) {
	return whole(func(out, outLen unsafe.Pointer) int32 { return cchatRecv(response, out, outLen) })
}

// whole repeats a call with a larger buffer if the result does not fit: the host keeps the result meanwhile.
func whole(call func(out, outLen unsafe.Pointer) int32) ([]byte, error) {
	for capacity := uint32(4096); ; {
		out := make([]byte, capacity)
		length := capacity
		rc := call(unsafe.Pointer(&out[0]), unsafe.Pointer(&length))
		if rc >= 0 {
			return out[:rc], nil
		}
		if Errno(-rc) != enospc {
			return nil, Errno(-rc)
		}
		capacity = length
	}
}
