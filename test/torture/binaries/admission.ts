import { ModuleError } from '../../../src/abi/guest-module.ts';
import { asyncImports } from '../../../src/load/component/async-imports.ts';
import { readComponent } from '../../../src/load/component/component-binary.ts';
import { withoutCustomSections } from '../../../src/load/component/custom-sections.ts';
import { entryOf } from '../../../src/load/component/entry.ts';
import { chooseLane } from '../../../src/load/component/fast-lane-proof.ts';
import { checkImports } from '../../../src/load/component/import-check.ts';
import { linkComponent } from '../../../src/load/component/link-component.ts';
import type { TranspileRequest } from '../../../src/load/component/transpile.ts';
import { prepare } from '../../../src/load/prepare.ts';
import { binaryKind } from '../../../src/load/wasm-binary.ts';
import { compileLimits } from '../../../src/protocol/limits.ts';

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
