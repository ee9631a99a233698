// The JSON functions of spear.ts as exports, so that a test can hold them against JSON.parse. Text goes in as UTF-8 at
// addresses from `alloc`, and comes back at `result`, its length returned.
import { Json, quote } from "../spear";

let answer = new ArrayBuffer(0);

function give(text: string): i32 {
  answer = String.UTF8.encode(text);
  return answer.byteLength;
}

function value(json: usize, jsonLength: i32, path: usize, pathLength: i32): Json {
  return Json.parse(String.UTF8.decodeUnsafe(json, jsonLength)).at(String.UTF8.decodeUnsafe(path, pathLength));
}

export function alloc(bytes: i32): usize {
  return heap.alloc(bytes);
}

export function release(memory: usize): void {
  heap.free(memory);
}

export function result(): usize {
  return changetype<usize>(answer);
}

export function text(json: usize, jsonLength: i32, path: usize, pathLength: i32): i32 {
  const found = value(json, jsonLength, path, pathLength);
  return found.isText ? give(found.text()) : -2;
}

export function raw(json: usize, jsonLength: i32, path: usize, pathLength: i32): i32 {
  const found = value(json, jsonLength, path, pathLength).raw();
  return found == "" ? -2 : give(found);
}

export function number(json: usize, jsonLength: i32, path: usize, pathLength: i32): f64 {
  return value(json, jsonLength, path, pathLength).number("", -1);
}

export function quoted(text: usize, length: i32): i32 {
  return give(quote(String.UTF8.decodeUnsafe(text, length)));
}
