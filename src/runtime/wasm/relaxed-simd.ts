import { op, readInstruction, skipType } from './instructions.ts';
import { binaryKind, readSections, WasmReader } from './wasm-binary.ts';

/*
 * The instructions whose results an engine may choose: the only chance in wasm that does not come through an import. To
 * find them is to walk the code, which is long, so it is done only where their bytes stand somewhere at all.
 */

const CODE = 10;
const CORE_MODULE = 1;
const NESTED_COMPONENT = 4;
const FIRST_RELAXED = 0x100;
const LAST_RELAXED = 0x113;

/** Whether a module, or one inside of a component, has instructions of relaxed SIMD. */
export function usesRelaxedSimd(bytes: Uint8Array): boolean {
  if (!mayUse(bytes)) return false;
  if (binaryKind(bytes) === 'core') return readSections(bytes).some(({ id, body }) => id === CODE && isInCode(body));
  return readSections(bytes).some(
    ({ id, body }) => (id === CORE_MODULE || id === NESTED_COMPONENT) && usesRelaxedSimd(body),
  );
}

/** `fd 80 02` to `fd 93 02`: without these bytes there is none; with them there may be. */
function mayUse(bytes: Uint8Array): boolean {
  for (let at = bytes.indexOf(op.simd); at >= 0; at = bytes.indexOf(op.simd, at + 1)) {
    const [low, high] = [bytes[at + 1] ?? 0, bytes[at + 2]];
    if (high === FIRST_RELAXED >> 7 && low >= 0x80 && low <= (0x80 | (LAST_RELAXED & 0x7f))) return true;
  }
  return false;
}

function isInCode(section: Uint8Array): boolean {
  const reader = new WasmReader(section);
  return reader.vector(() => isInFunction(reader.slice(reader.unsigned()))).some(Boolean);
}

function isInFunction(body: Uint8Array): boolean {
  const code = new WasmReader(body);
  code.vector(() => {
    code.unsigned();
    skipType(code);
  });
  while (!code.done) {
    const { opcode, sub } = readInstruction(code);
    if (opcode === op.simd && sub >= FIRST_RELAXED && sub <= LAST_RELAXED) return true;
  }
  return false;
}
