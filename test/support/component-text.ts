import { readFileSync } from 'node:fs';
import { componentEmbed, componentNew, parse, print } from '@bytecodealliance/jco-transpile/wasm-tools';
import { guestModule } from './guest-text.ts';

/** `wit/spear.wit`, to which tests may add worlds of their own. */
export const spearWit = readFileSync(new URL('../../wit/spear.wit', import.meta.url), 'utf8');

/** A component or a core module from its text. */
export const fromText = (text: string): Promise<Uint8Array> => parse(text);

export interface BuildOptions {
  readonly wit?: string;
  readonly world?: string;
  readonly stringEncoding?: 'utf8' | 'utf16';
}

/** What a toolchain does: a core module in text, made a component of a world. */
export async function buildComponent(core: string, options: BuildOptions = {}): Promise<Uint8Array> {
  const { wit = spearWit, world = 'task', stringEncoding = 'utf8' } = options;
  return componentNew(await componentEmbed({ binary: await parse(core), witSource: wit, world, stringEncoding }));
}

/** A component that imports all of a world and traps when it is entered. */
export async function dummyComponent(wit = spearWit, world = 'task'): Promise<Uint8Array> {
  return componentNew(await componentEmbed({ dummy: true, witSource: wit, world }));
}

/** `run` logs a text and ends well. */
export const logging = (text: string): string =>
  guestModule({
    calls: ['log'],
    body: `
      (data (i32.const 0) "${text}")
      (func (export "run") (result i32)
        (call $log (i32.const 2) (i32.const 0) (i32.const ${Buffer.byteLength(text)}) (i32.const 512))
        (i32.const 0))`,
  });

/** A component in text under a name, to be written into another one. */
export const nestedText = async (component: Uint8Array, name: string): Promise<string> =>
  (await print(component)).replace('(component', `(component $${name}`);

/** What a component imports, in text; its instances are named as their interfaces are. */
export async function importsText(component: Uint8Array): Promise<string> {
  const text = await print(component);
  return text.slice('(component'.length, text.indexOf('(core module'));
}
