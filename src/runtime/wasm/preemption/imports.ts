import { ModuleError } from '../../abi/guest-module.ts';
import { PREEMPTION_MODULE } from '../../port/preemption.ts';
import { skipType } from '../instructions.ts';
import { WasmReader } from '../wasm-binary.ts';

export interface Imports {
  readonly count: number;
  /** The entries as they are. */
  readonly list: Uint8Array;
  readonly functions: number;
  readonly memories: number;
}

/** What a module imports, as far as it shifts the numbers of what it has itself. */
export function readImports(body: Uint8Array = Uint8Array.of(0)): Imports {
  const reader = new WasmReader(body);
  const count = reader.unsigned();
  const list = body.subarray(reader.offset);
  let functions = 0;
  let memories = 0;
  for (let left = count; left > 0; left--) {
    if (reader.name() === PREEMPTION_MODULE)
      throw new ModuleError(`the module imports from ${PREEMPTION_MODULE}, which is reserved`);
    reader.name();
    const kind = reader.byte();
    if (kind === 0x00) {
      functions += 1;
      reader.unsigned();
    } else if (kind === 0x01) {
      skipType(reader);
      skipLimits(reader);
    } else if (kind === 0x02) {
      memories += 1;
      skipLimits(reader);
    } else if (kind === 0x03) {
      skipType(reader);
      reader.byte();
    } else if (kind === 0x04) {
      reader.byte();
      reader.unsigned();
    } else throw new ModuleError(`the module has an import of unknown kind ${kind}`);
  }
  return { count, list, functions, memories };
}

const HAS_MAX = 0x01;

function skipLimits(reader: WasmReader): void {
  const flags = reader.byte();
  if (flags > HAS_MAX) throw new ModuleError('the module imports a memory or a table with unknown limit flags');
  reader.unsigned();
  if (flags & HAS_MAX) reader.unsigned();
}
