import { readFileSync } from 'node:fs';
import { componentEmbed, componentNew } from '@bytecodealliance/jco-transpile/wasm-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { abiVersion, type Call, calls } from '../../../src/runtime/abi/calls.ts';
import { errnoNames } from '../../../src/runtime/abi/errno.ts';
import { interfaceName, type WitFunction, witErrnos, witFunctions, witPackage } from '../../../src/runtime/abi/wit.ts';
import { readComponent } from '../../../src/runtime/wasm/component/component-binary.ts';
import { linkComponent } from '../../../src/runtime/wasm/component/link-component.ts';
import { type DeclaredItems, typeText } from '../../../src/runtime/wasm/component/type-scope.ts';

const wit = readFileSync(new URL('../../../wit/spear.wit', import.meta.url), 'utf8');
const lines = wit.split('\n');

/** What wasm-tools reads in the file: the imports of a component that has all of a world. */
async function interfacesOf(world: string): Promise<ReadonlyMap<string, DeclaredItems>> {
  const component = await componentNew(await componentEmbed({ dummy: true, witSource: wit, world }));
  const { imports } = linkComponent(readComponent(component));
  return new Map([...imports].map(([name, item]) => [name, item.sort === 'instance' ? item.items : new Map()]));
}

let task: ReadonlyMap<string, DeclaredItems> = new Map();
beforeAll(async () => {
  task = await interfacesOf('task');
});

const errno = `enum { ${witErrnos.join(', ')} }`;
const written: Readonly<Record<string, string>> = { fd: 's32', 'list<ready>': 'list<record { fd: s32, events: s32 }>' };
const asText = (type: string) => written[type] ?? type;

function signature({ params, value, fallible }: WitFunction): string {
  const list = params.map(({ name, type }) => `${name}: ${asText(type)}`).join(', ');
  if (fallible) return `func(${list}) -> result<${value === 'none' ? '_' : asText(value)}, ${errno}>`;
  return `func(${list})${value === 'none' ? '' : ` -> ${asText(value)}`}`;
}

const functionsOf = (items: DeclaredItems) =>
  [...items].flatMap(([name, item]) => (item.sort === 'func' ? [`${name}: ${typeText(item.type)}`] : []));

describe('wit/spear.wit and the call table', () => {
  it('have the same functions, parameters and results, and no others [wit.calls]', () => {
    const declared = [...task].flatMap(([from, items]) => functionsOf(items).map((text) => `${from} ${text}`));
    const expected = witFunctions.map((row) => `${interfaceName(row.interface)} ${row.name}: ${signature(row)}`);
    expect(declared.sort()).toEqual(expected.sort());
    expect(declared).toHaveLength(calls.length);
  });

  it('have one function for each call, named after it [wit.calls]', () => {
    expect(witFunctions.map(({ call }) => call)).toEqual(calls.map(({ name }: Call) => name));
    for (const { call, name } of witFunctions) expect(name.replaceAll('-', '_')).toBe(call);
  });

  it('have the same errnos, in the order of their numbers', () => {
    const type = task.get(interfaceName('types'))?.get('errno');
    if (type?.sort !== 'type') throw new Error('types has no errno');
    expect(typeText(type.type)).toBe(errno);
    expect(witErrnos).toEqual(errnoNames.map((name) => name.toLowerCase()));
    const numbers = [...wit.matchAll(/^ {8}\/\/\/ (\d+): /gm)].map(([, number]) => Number(number));
    expect(numbers).toHaveLength(errnoNames.length);
    expect(numbers).toEqual([...numbers].sort((one, other) => one - other));
  });

  it('have the same version, that of the ABI', () => {
    expect(wit).toContain(`\npackage ${witPackage.namespace}:${witPackage.name}@${witPackage.version};\n`);
    expect(witPackage.version).toBe(`${abiVersion.major}.${abiVersion.minor}.0`);
    for (const name of task.keys()) expect(name.endsWith(`@${witPackage.version}`)).toBe(true);
  });
});

describe('the worlds', () => {
  it('imports is all that task imports', async () => {
    const imports = await componentNew(await componentEmbed({ dummy: true, witSource: wit, world: 'imports' }));
    const linked = linkComponent(readComponent(imports));
    expect([...linked.imports.keys()].sort()).toEqual([...task.keys()].sort());
    expect([...linked.exports.keys()]).toEqual([]);
    expect([...linked.imports.keys()].sort()).toEqual(
      [...new Set(witFunctions.map((row) => interfaceName(row.interface))), interfaceName('types')].sort(),
    );
  });
});

describe('the documentation', () => {
  const named = /^\s*(?:(interface|world|record|enum|type) ([a-z-]+)|([a-z0-9-]+): func|export ([a-z-]+):)/;
  const documented = lines.flatMap((line, index) => {
    const found = named.exec(line);
    if (!found || line.includes('use ')) return [];
    const name = found[2] ?? found[3] ?? found[4] ?? '';
    return [{ name, comment: lines[index - 1]?.trim() ?? '' }];
  });

  it('is there for every interface, world, type and function', () => {
    expect(documented.map(({ name }) => name)).toEqual(expect.arrayContaining(witFunctions.map(({ name }) => name)));
    expect(documented.filter(({ comment }) => !/^\/\/\/ \S/.test(comment)).map(({ name }) => name)).toEqual([]);
  });

  it('is there for every errno', () => {
    for (const name of witErrnos) expect(wit).toMatch(new RegExp(`/// \\d+: .+\\n {8}${name},`));
  });

  it('names every errno that a function may give, there or for its whole interface', () => {
    const ofPointers = ['EFAULT', 'ENOSPC'];
    for (const { call, name, interface: from } of witFunctions) {
      const row: Call | undefined = calls.find((one) => one.name === call);
      const text = commentOver(`${name}: func`) + commentOver(`interface ${from} {`);
      const missing = Object.keys(row?.errnos ?? {}).filter(
        (code) => !ofPointers.includes(code) && !text.includes(`\`${code.toLowerCase()}\``),
      );
      expect({ name, missing }).toEqual({ name, missing: [] });
    }
  });

  function commentOver(start: string): string {
    const at = lines.findIndex((line) => line.trim().startsWith(start));
    let from = at;
    while (lines[from - 1]?.trim().startsWith('///')) from--;
    return lines.slice(from, at).join('\n');
  }

  it('shows how tools are handed back', () => {
    expect(wit).toContain('_spear.pending_tool_calls');
    expect(wit).toMatch(/cchat-write-tool-result\(s, id, text\)/);
  });
});
