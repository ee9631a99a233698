import { ModuleError } from '../../abi/guest-module.ts';

/** What jco generates for a component. `imports` has its interfaces by name, with and without their version. */
export type Instantiate = (
  getCoreModule: (name: string) => WebAssembly.Module,
  imports: Readonly<Record<string, unknown>>,
  instantiateCore: (module: WebAssembly.Module, imports?: WebAssembly.Imports) => WebAssembly.Instance,
) => Promise<ComponentExports> | ComponentExports;

export type ComponentExports = Readonly<Record<string, unknown>>;

const ENTRY = 'export function instantiate(';
const REST = /\nexport const _util = \{\s*\}/;
/** With the bracket, which no name of a guest can have: one of them may well be `import.meta.url`. */
const OWN_ADDRESS = ', import.meta.url)';

const silent = () => {};

/**
 * Globals that the glue names but gets no use of here: it is given its core modules and its imports, and what it says to
 * a console would stand among the guest's own output. Not a sandbox, for the text was admitted; but what it cannot name
 * it cannot misuse by mistake.
 */
const hidden: Readonly<Record<string, unknown>> = {
  process: undefined,
  require: undefined,
  fetch: undefined,
  module: undefined,
  exports: undefined,
  console: { debug: silent, error: silent, log: silent, warn: silent },
};

/**
 * Turns the text of the glue into its one function. As a function of this context rather than as a module: that takes a
 * third of the time, needs no file that could be exchanged meanwhile, and leaves `import()` without a loader.
 */
export function evaluateGlue(glue: string): Instantiate {
  const { compileFunction } = process.getBuiltinModule('node:vm');
  const body = glue
    .replace(ENTRY, ENTRY.replace('export ', ''))
    .replace(REST, '')
    .replace(OWN_ADDRESS, ", 'component:')");
  if (!glue.includes(ENTRY) || /^export /m.test(body)) {
    throw new ModuleError(
      'the generated glue code of the component has an unknown form: another version of jco made it',
    );
  }
  const make = compiled(() =>
    compileFunction(`'use strict';\n${body}\nreturn instantiate;`, Object.keys(hidden), { filename: 'component.js' }),
  );
  return make(...Object.values(hidden)) as Instantiate;
}

/** jco gives some names of a component to variables of its own; not every name can be that of one. */
function compiled<T>(compile: () => T): T {
  try {
    return compile();
  } catch (error) {
    const reason = (error as Error).message;
    throw new ModuleError(
      `jco generated invalid JavaScript for the component (${reason}); rename the exports of the component`,
    );
  }
}
