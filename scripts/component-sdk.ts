import { type Call, calls, coreParams } from '../src/runtime/abi/calls.ts';
import { type WitFunction, witFunctions, witPackage } from '../src/runtime/abi/wit.ts';

const BEGIN = 'generated from the call table: npm run docs';
const END = 'end of the generated part';

/** Replaces what stands between the two marks of a source file, each a comment on a line of its own. */
export function fillSource(source: string, content: string): string {
  const lines = source.split('\n');
  const begin = lines.findIndex((line) => line.includes(BEGIN));
  const end = lines.findIndex((line) => line.includes(END));
  if (begin < 0 || end < begin) throw new Error(`the marks "${BEGIN}" and "${END}" are missing`);
  return [...lines.slice(0, begin + 1), content.trimEnd(), ...lines.slice(end)].join('\n');
}

/** What does not fit the buffer is kept for the same call with a larger one. */
const held = ['mcp_call_tool', 'mcp_read_resource', 'mcp_get_prompt'];

/** A call whose wrapper needs more than converting values is written by hand. */
const byHand = (call: string) =>
  ['cchat_write_fn', 'cchat_send', 'cchat_read', ...held, 'spear_epoll_wait'].includes(call) ||
  /^user_stream_.*read$/.test(call) ||
  (/_(ctl|close)$/.test(call) && call !== 'spear_epoll_ctl');

type Shape = 'plain' | 'done' | 'number' | 'bytes';

/** How the result lies in memory. */
function shape({ fallible, value }: WitFunction): Shape {
  if (!fallible) return 'plain';
  if (value === 'none') return 'done';
  return value === 'fd' ? 'number' : 'bytes';
}

interface Parameter {
  readonly type: string;
  readonly name: string;
}

const declared = (params: readonly Parameter[]) => params.map(({ type, name }) => `${type}${name}`).join(', ');
const names = (params: readonly Parameter[]) => params.map(({ name }) => name);

function cParams({ params }: WitFunction): Parameter[] {
  return params.flatMap(({ name: kebab, type }): Parameter[] => {
    const name = kebab.replaceAll('-', '_');
    if (type === 'fd' || type === 's32') return [{ type: 'int32_t ', name }];
    return [
      { type: type === 'string' ? 'const char *' : 'const void *', name: `${name}_ptr` },
      { type: 'uint32_t ', name: `${name}_len` },
    ];
  });
}

const cResult = ({ value }: WitFunction) => (value === 'none' ? 'void' : value === 's64' ? 'int64_t' : 'int32_t');

function cImport(row: WitFunction): string {
  const kind = shape(row);
  const result = kind === 'plain' ? [] : [{ type: `spear_wit_${kind} *`, name: 'result' }];
  const params = declared([...cParams(row), ...result]) || 'void';
  const type = kind === 'plain' ? cResult(row) : 'void';
  return `SPEAR_WIT("${row.interface}", "${row.name}")\n${type} spear_wit_${row.call}(${params});`;
}

function cWrapper(row: WitFunction): string {
  const kind = shape(row);
  const params = cParams(row);
  const name = row.call === 'log' ? 'spear_log' : row.call; // C has a log of its own
  if (kind === 'plain') {
    const call = `${row.value === 'none' ? '' : 'return '}spear_wit_${row.call}(${names(params).join(', ')})`;
    return `static inline ${cResult(row)} ${name}(${declared(params) || 'void'}) {\n  ${call};\n}`;
  }
  const buffer = [
    { type: 'void *', name: 'out_ptr' },
    { type: 'uint32_t *', name: 'out_len_ptr' },
  ];
  const take = { done: 'nothing(&result)', number: 'value(&result)', bytes: 'out(&result, out_ptr, out_len_ptr)' }[
    kind
  ];
  return [
    `static inline int32_t ${name}(${declared(kind === 'bytes' ? [...params, ...buffer] : params) || 'void'}) {`,
    `  spear_wit_${kind} result;`,
    `  spear_wit_${row.call}(${[...names(params), '&result'].join(', ')});`,
    `  return spear_wit_${take};`,
    '}',
  ].join('\n');
}

/** The generated part of guest-examples/c/spear-component.h. */
export function cComponentCalls(): string {
  const wrapped = witFunctions.filter(({ call }) => !byHand(call));
  return [...witFunctions.map(cImport), '', ...wrapped.map(cWrapper)].join('\n');
}

function ascParams({ params }: WitFunction): Parameter[] {
  return params.flatMap(({ name: kebab, type }): Parameter[] => {
    const name = kebab.replaceAll('-', '_');
    if (type === 'fd' || type === 's32') return [{ type: 'i32', name }];
    return [
      { type: 'usize', name: `${name}_ptr` },
      { type: 'u32', name: `${name}_len` },
    ];
  });
}

const ascDeclared = (params: readonly Parameter[]) => params.map(({ type, name }) => `${name}: ${type}`).join(', ');
const ascResult = ({ value }: WitFunction) => (value === 'none' ? 'void' : value === 's64' ? 'i64' : 'i32');

function ascImport(row: WitFunction): string {
  const kind = shape(row);
  const params = kind === 'plain' ? ascParams(row) : [...ascParams(row), { type: 'usize', name: 'result' }];
  const from = `${witPackage.namespace}:${witPackage.name}/${row.interface}@${witPackage.version}`;
  const type = kind === 'plain' ? ascResult(row) : 'void';
  return `@external("${from}", "${row.name}") declare function wit_${row.call}(${ascDeclared(params)}): ${type};`;
}

function ascWrapper(row: WitFunction): string {
  const kind = shape(row);
  const params = ascParams(row);
  if (kind === 'plain') {
    const call = `${row.value === 'none' ? '' : 'return '}wit_${row.call}(${names(params).join(', ')})`;
    return `export function ${row.call}(${ascDeclared(params)}): ${ascResult(row)} {\n  ${call};\n}`;
  }
  const buffer = ['out_ptr', 'out_len_ptr'].map((name) => ({ type: 'usize', name }));
  const take = { done: 'takeNothing()', number: 'takeNumber()', bytes: 'takeBytes(out_ptr, out_len_ptr)' }[kind];
  return [
    `export function ${row.call}(${ascDeclared(kind === 'bytes' ? [...params, ...buffer] : params)}): i32 {`,
    `  wit_${row.call}(${[...names(params), 'result'].join(', ')});`,
    `  return ${take};`,
    '}',
  ].join('\n');
}

/** The generated part of guest-examples/assemblyscript/spear-component.ts. */
export function assemblyScriptComponentCalls(): string {
  const wrapped = witFunctions.filter(({ call }) => !byHand(call));
  return [...witFunctions.map(ascImport), '', ...wrapped.map(ascWrapper)].join('\n');
}

/** The generated part of guest-examples/assemblyscript/spear.ts: each call, in whichever form the guest is built. */
export function assemblyScriptCalls(): string {
  return calls
    .map((row: Call) => {
      const params = coreParams(row).map((name) => ({
        name,
        type: /_ptr$/.test(name) ? 'usize' : /_len$/.test(name) ? 'u32' : 'i32',
      }));
      const type = row.result === 'none' ? 'void' : row.result;
      const list = ascDeclared(params);
      const args = names(params).join(', ');
      const body =
        type === 'void'
          ? `if (isDefined(SPEAR_COMPONENT)) component.${row.name}(${args}); else core_${row.name}(${args});`
          : `return isDefined(SPEAR_COMPONENT) ? component.${row.name}(${args}) : core_${row.name}(${args});`;
      return [
        `@external("spear", "${row.name}") declare function core_${row.name}(${list}): ${type};`,
        `@inline export function ${row.name}(${list}): ${type} { ${body} }`,
      ].join('\n');
    })
    .join('\n');
}
