// Throws, so that a test can see what AssemblyScript's abort becomes: a line on stderr and a trap.
import { print } from "../spear";

export function run(): i32 {
  print("before the throw");
  throw new Error("nothing left to try");
}
