import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/cli/exit-codes.ts';
import { parseLimit } from '../../src/cli/run/flags.ts';
import { ConfigError } from '../../src/config/config-error.ts';
import { loadTaskConfig } from '../../src/config/task-config.ts';
import { limitNames, limitSpecs } from '../../src/runtime/port/limits.ts';

const load = (content: unknown) =>
  loadTaskConfig('task.json', () => (typeof content === 'string' ? content : JSON.stringify(content)));

const nothing = { name: null, namespace: null, config: {}, limits: {}, args: [], env: {}, backend: null, wasm: null };

describe('a task config', () => {
  it('may be absent or empty, and every field is set all the same [task.keys]', async () => {
    const unread = () => {
      throw new Error('a file was read');
    };
    expect(await loadTaskConfig(undefined, unread)).toEqual(nothing);
    expect(await load({})).toEqual(nothing);
  });

  it('keeps what it says, frozen [task.keys]', async () => {
    const document = {
      name: 'n',
      namespace: 'team',
      config: { 'mcp.enabled': 'true' },
      limits: { timeout_ms: 5 },
      args: ['a', ''],
      env: { A: '', 'odd name': 'ok' },
      backend: 'b',
      wasm: 'm.wasm',
    };
    const task = await load(document);
    expect(task).toEqual(document);
    expect(Object.isFrozen(task)).toBe(true);
  });

  it('takes every limit at both ends of its range, and nothing beyond [task.limits]', async () => {
    for (const name of limitNames) {
      const { min, max } = limitSpecs[name];
      for (const value of [min, max])
        expect((await load({ limits: { [name]: value } })).limits).toEqual({ [name]: value });
      for (const value of [min - 1, max + 1]) {
        await expect(load({ limits: { [name]: value } }), `${name} = ${value}`).rejects.toThrow(
          `limits.${name}: must be`,
        );
      }
    }
  });
});

describe('a bare map', () => {
  it('of strings is the config [task.bare-map]', async () => {
    const map = { 'mcp.enabled': 'true', 'mcp.default_server_ids': '["fs"]', anything: '' };
    expect(await load(map)).toEqual({ ...nothing, config: map });
  });

  it('of keys of MCP may hold other values than strings [task.bare-map]', async () => {
    const map = { 'mcp.enabled': true, 'mcp.default_server_ids': ['fs'], anything: '' };
    expect(await load(map)).toEqual({ ...nothing, config: map });
  });

  it.each([
    ['one key of ours', { name: 'n', greeting: 'x' }, 'unknown key "greeting"'],
    ['one value that is no string', { greeting: 'x', retries: 3 }, 'unknown key "greeting"'],
  ])('is none with %s [task.bare-map] [task.strict]', async (_, map, expected) => {
    await expect(load(map)).rejects.toThrow(expected);
  });
});

it.each([
  [{ confg: { a: '1' }, limits: {} }, 'did you mean "config"?'],
  [{ arg: ['x'] }, 'did you mean "args"?'],
  [{ limits: { memory: 1 } }, 'did you mean "memory_bytes"?'],
  [{ limits: { 'max-fds': 1 } }, 'did you mean "max_fds"?'],
  [{ environment: { A: '1' } }, 'did you mean "env"?'],
  [{ config: { greeting: ['x'] } }, 'config.greeting: expected a string, found a list'],
  [{ limits: [] }, 'limits: expected a table, found a list'],
  [{ name: '' }, 'name: must not be empty'],
  [{ args: ['a\0b'] }, 'args[0]: must not contain a NUL character'],
  [{ env: { '': 'x' } }, 'a variable name must not be empty'],
  ['[1,', 'not valid JSON'],
])('%j is refused: %s [task.strict]', async (content, expected) => {
  await expect(load(content)).rejects.toThrow(ConfigError);
  await expect(load(content)).rejects.toThrow(expected);
  await expect(load(content)).rejects.toThrow(/^task\.json: /);
});

describe('--limit', () => {
  it('is a name and a whole number in its range [task.limits]', () => {
    expect(parseLimit('max_fds=7')).toEqual(['max_fds', 7]);
    expect(parseLimit(`timeout_ms=${limitSpecs.timeout_ms.max}`)).toEqual(['timeout_ms', limitSpecs.timeout_ms.max]);
  });

  it.each([
    'max_fds',
    'max_fds=',
    'max_fds=-1',
    'max_fds=1.5',
    'max_fds=1e3',
    'max_fds=0x10',
    'max_fds= 5',
    'max_fds=5=6',
    'max_fds=1000001',
  ])('%s is refused with the range [cli.usage]', (text) => {
    expect(() => parseLimit(text)).toThrow(UsageError);
    expect(() => parseLimit(text)).toThrow(`--limit ${text}: expected a whole number from 1 to 1000000, found`);
  });

  it('of an unknown name is answered with the nearest one, or with all of them [cli.usage]', () => {
    expect(() => parseLimit('max_fd=1')).toThrow('did you mean "max_fds"?');
    expect(() => parseLimit('colour=1')).toThrow(`valid: ${limitNames.join(', ')}`);
    expect(() => parseLimit('=1')).toThrow('unknown limit ""');
  });
});
