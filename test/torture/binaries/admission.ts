import { ModuleError } from '../../../src/runtime/abi/guest-module.ts';
import { compileLimits } from '../../../src/runtime/port/limits.ts';
import { readComponent, withoutCustomSections } from '../../../src/runtime/wasm/component/component-binary.ts';
import { chooseLane } from '../../../src/runtime/wasm/component/fast-lane-proof.ts';
import { asyncImports, checkImports, entryOf } from '../../../src/runtime/wasm/component/import-check.ts';
import { linkComponent } from '../../../src/runtime/wasm/component/link-component.ts';
import type { TranspileRequest } from '../../../src/runtime/wasm/component/transpile.ts';
import { prepare } from '../../../src/runtime/wasm/prepare.ts';
import { binaryKind } from '../../../src/runtime/wasm/wasm-binary.ts';

const options = { limits: compileLimits({}), allowUnknownImports: false };

/** What admission says of some bytes; for a component that is admitted also what jco would get. */
export type Judgement = { readonly refused: string } | { readonly admitted: TranspileRequest | null };

/** All that the host does with the bytes by itself, before jco sees anything. Any other error is a fault of ours. */
export async function judge(bytes: Uint8Array): Promise<Judgement> {
  try {
    if (binaryKind(bytes) === 'component') return { admitted: admitComponent(bytes) };
    await prepare(bytes, options);
    return { admitted: null };
  } catch (error) {
    if (error instanceof ModuleError && error.message !== '') return { refused: error.message };
    throw error;
  }
}

/** The steps of a compilation up to jco. */
function admitComponent(bytes: Uint8Array): TranspileRequest {
  const linked = linkComponent(readComponent(bytes));
  checkImports(linked.imports);
  const entry = entryOf(linked.exports);
  chooseLane(linked);
  return {
    bytes: withoutCustomSections(bytes),
    asyncImports: asyncImports([...linked.imports.keys()]),
    asyncExports: [entry === 'run' ? entry : `${entry}#run`],
  };
}
