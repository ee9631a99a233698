import { readComponent, withoutCustomSections } from './component-binary.ts';
import type { CompiledComponent } from './component-stages.ts';
import { chooseLane } from './fast-lane-proof.ts';
import { asyncImports, checkImports, entryOf } from './import-check.ts';
import { linkComponent } from './link-component.ts';
import { transpile } from './transpile.ts';

/** Admits, checks and compiles a component. Only the admission gate reads unadmitted bytes. */
export async function compileComponent(
  bytes: Uint8Array,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<CompiledComponent> {
  const linked = linkComponent(readComponent(bytes));
  checkImports(linked.imports);
  const entry = entryOf(linked.exports);
  const imports = [...linked.imports.keys()];
  const request = {
    bytes: withoutCustomSections(bytes),
    asyncImports: asyncImports(imports),
    asyncExports: [entry === 'run' ? entry : `${entry}#run`],
  };
  const modules = linked.coreInstances.map(({ module }) => module);
  return {
    ...(await transpile(request, timeoutMs, signal)),
    imports,
    entry,
    lane: chooseLane(linked),
    memories: modules.flatMap(({ memories }) => memories.map(({ min }) => min)),
    tables: modules.flatMap(({ tables }) => tables.map(({ min }) => min)),
  };
}
