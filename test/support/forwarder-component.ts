import { transpileBytes } from '@bytecodealliance/jco-transpile';
import { interfaceName, witFunctions } from '../../src/runtime/abi/wit.ts';
import { evaluateGlue, type Instantiate } from '../../src/runtime/guest/component/glue.ts';
import { asyncImports } from '../../src/runtime/wasm/component/import-check.ts';
import { componentOf, flatParams, flatResult, hasReturnArea, importText, resultText } from './guest-text.ts';

/** Where the core module lets the host write its results, and where its allocator starts again after every call. */
const RETURN_AREA = 16;
const FIRST_FREE = 1024;
const PAGES = 4;

/** A component that can be instantiated again and again. */
export interface ForwarderComponent {
  readonly instantiate: Instantiate;
  readonly coreModule: (name: string) => WebAssembly.Module;
  readonly imports: readonly string[];
}

let made: Promise<ForwarderComponent> | undefined;

/**
 * A component that does nothing by itself: each function of `spear:host` is imported, and exported again under its own
 * name. Its allocator moves on within a call and grows the memory as it must.
 */
export function forwarderComponent(): Promise<ForwarderComponent> {
  made ??= make();
  return made;
}

async function make(): Promise<ForwarderComponent> {
  const imports = [...new Set(witFunctions.map((fn) => interfaceName(fn.interface)))];
  const { files } = await transpileBytes(await componentOf(coreModule(), world()), {
    name: 'forwarder',
    instantiation: 'async',
    asyncMode: 'jspi',
    asyncImports: asyncImports(imports),
    asyncExports: witFunctions.map(({ name }) => name),
    emitTypescriptDeclarations: false,
  });
  const modules = new Map(
    Object.entries(files)
      .filter(([name]) => name.endsWith('.wasm'))
      .map(([name, bytes]) => [name, new WebAssembly.Module(bytes)]),
  );
  return {
    instantiate: evaluateGlue(Buffer.from(files['forwarder.js'] ?? '').toString()),
    coreModule: (name) => modules.get(name) as WebAssembly.Module,
    imports,
  };
}

function coreModule(): string {
  const exported = witFunctions.map((fn) => {
    const area = hasReturnArea(fn) ? `(i32.const ${RETURN_AREA})` : '';
    const lifted = hasReturnArea(fn) ? 'i32' : flatResult(fn);
    const given = flatParams(fn).map((_, index) => `(local.get ${index})`);
    return `
      (func (export "${fn.name}") (param ${flatParams(fn).join(' ')}) ${resultText(lifted)}
        (call $${fn.name} ${given.join(' ')} ${area}) ${area})
      (func (export "cabi_post_${fn.name}") (param ${lifted}) (global.set $next (i32.const ${FIRST_FREE})))`;
  });
  return `(module
    ${witFunctions.map(importText).join('\n')}
    (memory (export "memory") ${PAGES})
    (global $next (mut i32) (i32.const ${FIRST_FREE}))
    (func (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
      (local $ptr i32)
      (local.set $ptr (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $ptr) (local.get $new)))
      (block $fits
        (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
        (drop (memory.grow (i32.add (i32.div_u (local.get $new) (i32.const 65536)) (i32.const 1)))))
      (local.get $ptr))
    ${exported.join('\n')})`;
}

function world(): string {
  const exported = witFunctions.map(({ name, params, value, fallible }) => {
    const given = params.map((param) => `%${param.name}: ${param.type === 'fd' ? 's32' : param.type}`);
    const gives = value === 'fd' ? 's32' : value;
    const returned = fallible
      ? `-> result<${gives === 'none' ? '_' : gives}, errno>`
      : gives === 'none'
        ? ''
        : `-> ${gives}`;
    return `export ${name}: func(${given.join(', ')}) ${returned};`;
  });
  return `use types.{errno}; use poll.{ready}; include imports; ${exported.join('\n')}`;
}
