/** A call as an SDK declares it: its name in the ABI, parameter names, and core types. */
export interface Declaration {
  readonly name: string;
  readonly params: readonly { readonly name: string; readonly type: string }[];
  readonly result: string;
}

const cTypes: Readonly<Record<string, string>> = { int32_t: 'i32', uint32_t: 'i32', int64_t: 'i64', void: 'none' };
const assemblyScriptTypes: Readonly<Record<string, string>> = {
  i32: 'i32',
  u32: 'i32',
  usize: 'i32',
  i64: 'i64',
  void: 'none',
};

function known(types: Readonly<Record<string, string>>, type: string, where: string): string {
  const core = types[type];
  if (!core) throw new Error(`${where}: a type this test does not know: ${type}`);
  return core;
}

const commas = (list: string) =>
  list
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '' && part !== 'void');

/** Every `SPEAR_IMPORT(name) type function(parameters);`. */
export function cDeclarations(source: string): Declaration[] {
  const pattern = /^SPEAR_IMPORT\((\w+)\) (\w+) (\w+)\(([^)]*)\);/gm;
  return [...source.matchAll(pattern)].map(([, name = '', result = '', , params = '']) => ({
    name,
    result: known(cTypes, result, name),
    params: commas(params).map((param) => {
      const [, type = '', pointer, param_name = ''] = /^(?:const )?(\w+) (\*?)(\w+)$/.exec(param) ?? [];
      return { name: param_name, type: pointer ? 'i32' : known(cTypes, type, `${name}(${param})`) };
    }),
  }));
}

/** Every `@external("spear", "name") … declare function …`. */
export function assemblyScriptDeclarations(source: string): Declaration[] {
  const pattern = /^@external\("spear", "(\w+)"\) declare function core_\1\(([^)]*)\): (\w+);/gm;
  return [...source.matchAll(pattern)].map(([, name = '', params = '', result = '']) => ({
    name,
    result: known(assemblyScriptTypes, result, name),
    params: commas(params).map((param) => {
      const [param_name = '', type = ''] = param.split(': ');
      return { name: param_name, type: known(assemblyScriptTypes, type, `${name}(${param})`) };
    }),
  }));
}

/** `#define SPEAR_NAME 1`, without the prefix. */
export function cConstants(source: string): Map<string, number> {
  const found = [...source.matchAll(/^#define SPEAR_(\w+) \(?(-?\d+)\)?(?:\s|$)/gm)];
  return new Map(found.map(([, name = '', value]) => [name, Number(value)]));
}

/** `export const NAME: i32 = 1;` */
export function assemblyScriptConstants(source: string): Map<string, number> {
  const found = [...source.matchAll(/^export const (\w+): i32 = (-?\d+);/gm)];
  return new Map(found.map(([, name = '', value]) => [name, Number(value)]));
}
