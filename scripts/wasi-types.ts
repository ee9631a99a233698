// Writes the types of the functions of WASI 0.2 that are served, as the published WIT has them, in the form in which
// the import check writes a type out. An argument names another file to write to.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { componentEmbed, componentNew } from '@bytecodealliance/jco-transpile/wasm-tools';
import { servedWasi } from '../src/runtime/guest/component/wasi/served.ts';
import { readComponent } from '../src/runtime/wasm/component/component-binary.ts';
import { linkComponent } from '../src/runtime/wasm/component/link-component.ts';
import { typeText } from '../src/runtime/wasm/component/type-scope.ts';

/** The newest one that jco brings; a patch version only adds to those before it. */
const VERSION = '0.2.12';
const packages = ['io', 'clocks', 'random', 'filesystem', 'sockets', 'cli'];

const root = new URL('../', import.meta.url);
const out = process.argv[2] ?? fileURLToPath(new URL('src/generated/wasi-types.ts', root));

/** A package as jco brings it, to stand beside others in one text. */
function publishedWit(name: string): string {
  const path = `node_modules/@bytecodealliance/jco/lib/wit/builtin/${VERSION}/wasi-${name}/package.wit`;
  const text = readFileSync(new URL(path, root), 'utf8');
  // What is marked unstable is served all the same: toolchains use it.
  return `${text.replaceAll(/@unstable\([^)]*\)/g, '').replace(/^package ([^;]+);/m, 'package $1 {')}\n}`;
}

const imports = servedWasi.map((name) => `import ${name}@${VERSION};`).join(' ');
const witSource = `package spear:all; ${packages.map(publishedWit).join('\n')} world all { ${imports} }`;
const component = await componentNew(await componentEmbed({ dummy: true, witSource, world: 'all' }));

const rows: string[] = [];
for (const [name, item] of linkComponent(readComponent(component)).imports) {
  if (item.sort !== 'instance') throw new Error(`${name} is not an interface`);
  const from = name.replace(`@${VERSION}`, '');
  for (const [member, declared] of item.items) {
    if (declared.sort === 'func') rows.push(`  '${from}#${member}': '${typeText(declared.type)}',`);
  }
}
writeFileSync(
  out,
  `// Written by scripts/wasi-types.ts from the WIT of WASI ${VERSION}.

/** What each served function of WASI takes and gives. */
export const wasiFunctionTypes: Readonly<Record<string, string>> = {
${rows.sort().join('\n')}
};
`,
);
