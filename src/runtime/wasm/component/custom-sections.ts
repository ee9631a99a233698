import { unsignedLeb, WasmReader } from '../wasm-binary.ts';

const PREAMBLE_BYTES = 8;
const CUSTOM = 0;
const COMPONENT = 4;

/**
 * A component without its custom sections: names for debuggers, documentation, notes of toolchains. The gate does not
 * read them, so jco does not get them. Those of core modules stay, for the stacks of traps.
 *
 * Precondition: the component was admitted.
 */
export function withoutCustomSections(component: Uint8Array): Uint8Array {
  const reader = new WasmReader(component);
  const parts: Uint8Array[] = [reader.slice(PREAMBLE_BYTES)];
  while (!reader.done) {
    const id = reader.byte();
    const body = reader.slice(reader.unsigned());
    if (id === CUSTOM) continue;
    const kept = id === COMPONENT ? withoutCustomSections(body) : body;
    parts.push(Uint8Array.from([id, ...unsignedLeb(kept.byteLength)]), kept);
  }
  return Buffer.concat(parts);
}
