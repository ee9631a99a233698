import { print } from "./spear";

export function run(): i32 {
  print("hello from AssemblyScript");
  return 0;
}
