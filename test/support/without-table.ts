import { readSections, unsignedLeb, WasmReader, writeSections } from '../../src/runtime/wasm/wasm-binary.ts';

const EXPORT_SECTION = 7;
const TABLE = 1;

/** A module as it is when its linker was not told to export the function table. */
export function withoutTable(bytes: Uint8Array): Uint8Array {
  return writeSections(
    readSections(bytes).map(({ id, body }) => ({ id, body: id === EXPORT_SECTION ? withoutTables(body) : body })),
  );
}

function withoutTables(body: Uint8Array): Uint8Array {
  const reader = new WasmReader(body);
  const all = reader.vector(() => ({
    name: Buffer.from(reader.name()),
    kind: reader.byte(),
    index: reader.rawNumber(),
  }));
  const kept = all.filter(({ kind }) => kind !== TABLE);
  return Uint8Array.from([
    ...unsignedLeb(kept.length),
    ...kept.flatMap(({ name, kind, index }) => [...unsignedLeb(name.byteLength), ...name, kind, ...index]),
  ]);
}
