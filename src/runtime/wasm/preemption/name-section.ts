import { WasmReader } from '../wasm-binary.ts';
import { ByteList, nameBytes } from './byte-list.ts';
import type { Renumber } from './renumber.ts';

const NAME = 'name';
const FUNCTIONS = 1;

/** The names of the functions, which the frames of a trap are told by; null: there are none, or they cannot be read. */
export function renumberNames(custom: Uint8Array, renumber: Renumber): Uint8Array | null {
  try {
    const reader = new WasmReader(custom);
    if (reader.name() !== NAME) return null;
    while (!reader.done) {
      const kind = reader.byte();
      const part = reader.slice(reader.unsigned());
      if (kind === FUNCTIONS) return functionNames(new WasmReader(part), renumber);
    }
  } catch {
    // What is in a custom section is nobody's fault.
  }
  return null;
}

function functionNames(reader: WasmReader, renumber: Renumber): Uint8Array {
  const names = new ByteList();
  const count = reader.unsigned();
  names.number(count);
  for (let left = count; left > 0; left--) {
    names.number(renumber(reader.unsigned()));
    const length = reader.unsigned();
    names.number(length).add(reader.slice(length));
  }
  return new ByteList().add(nameBytes(NAME)).add([FUNCTIONS]).sized(names).bytes();
}
