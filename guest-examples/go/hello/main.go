// The smallest guest: an ordinary program.
package main

import "fmt"

func main() {
	fmt.Println("hello from Go")
}
