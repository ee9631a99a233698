import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { binaryKind } from '../../../src/runtime/wasm/wasm-binary.ts';
import { component, otherPlacesOfNames, placesOfNames } from '../../runtime/wasm/component/admission-samples.ts';
import { adapted } from '../../support/guest-text.ts';

export interface Binary {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export interface Corpus {
  readonly modules: readonly Binary[];
  readonly components: readonly Binary[];
}

const fixtures = fileURLToPath(new URL('../../../fixtures/', import.meta.url));
const toolchains = ['c', 'assemblyscript', 'rust', 'javascript'];
/** Long enough for every hostile name to take its place. */
const HARMLESS = 'harmless-name-of-some-length';

/** What the toolchains built, and components of a few lines with a name in every place where one can stand. */
export async function readCorpus(): Promise<Corpus> {
  const built = toolchains.flatMap((toolchain) =>
    readdirSync(`${fixtures}${toolchain}`, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.wasm'))
      .sort()
      .map((file) => ({ name: `${toolchain}/${file}`, bytes: readFileSync(`${fixtures}${toolchain}/${file}`) })),
  );
  const places = Object.entries({ ...placesOfNames, ...otherPlacesOfNames });
  const small = await Promise.all(
    places.map(async ([name, body]) => ({ name, bytes: await component(body(HARMLESS)) })),
  );
  const program = {
    name: 'an adapted program',
    bytes: await adapted('(module (memory (export "memory") 1) (func (export "_start")))'),
  };
  const isModule = ({ bytes }: Binary) => binaryKind(bytes) === 'core';
  return { modules: built.filter(isModule), components: [...built.filter((one) => !isModule(one)), ...small, program] };
}
