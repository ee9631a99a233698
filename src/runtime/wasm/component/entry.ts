import { ModuleError } from '../../abi/guest-module.ts';
import type { Item } from './link-component.ts';
import { typeText } from './type-scope.ts';

const OWN_ENTRY = 'run';
const ENTRY_TYPE = 'func() -> result';
const WASI_ENTRY = /^wasi:cli\/run@0\.2\.\d+$/;

/** The export that is entered: `wasi:cli/run`, else `run`. */
export function entryOf(exports: ReadonlyMap<string, Item>): string {
  for (const [name, item] of exports) {
    if (!WASI_ENTRY.test(name) || item.sort !== 'instance') continue;
    const run = item.instance.kind === 'own' ? item.instance.items.get('run') : undefined;
    checkEntry(`${name}#run`, run);
    return name;
  }
  const own = exports.get(OWN_ENTRY);
  if (own) {
    checkEntry(OWN_ENTRY, own);
    return OWN_ENTRY;
  }
  const others = [...exports.keys()].slice(0, 5).join(', ');
  throw new ModuleError(
    `the component has no entry point: it exports neither run: ${ENTRY_TYPE} nor wasi:cli/run@0.2 (exports: ${others || 'none'})`,
  );
}

function checkEntry(name: string, item: Item | undefined): void {
  if (item?.sort !== 'func' || item.func.kind !== 'own')
    throw new ModuleError(`the export ${name} is not a function of the component`);
  const found = typeText(item.func.type);
  if (found !== ENTRY_TYPE) throw new ModuleError(`the export ${name} has type ${found}; expected ${ENTRY_TYPE}`);
}
