import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type DirectoryOptions,
  describeProblem,
  loadDirectory,
} from '../../../../src/server/store/directory/directory.ts';
import { createMemoryStore } from '../../../../src/server/store/local-store.ts';
import { openSqliteStore } from '../../../../src/server/store/sqlite-store.ts';
import type { RegistryStore } from '../../../../src/server/store/store.ts';
import { sampleRecord } from '../../records/server-samples.ts';

let directory = '';
let store: RegistryStore;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'spear-dir-'));
  store = createMemoryStore();
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

const write = (name: string, text: string) => writeFileSync(join(directory, name), text);
const remove = (name: string) => rmSync(join(directory, name));
const toml = (id: string, more = '') =>
  `version = 1\nserver_id = "${id}"\ntransport = "stdio"\nallowed_tools = ["*"]\n${more}\n[stdio]\ncommand = "npx"\n`;
const json = (id: string, fields: object = {}) =>
  JSON.stringify(
    { server_id: id, transport: 'stdio', stdio: { command: 'npx' }, allowed_tools: ['*'], ...fields },
    null,
    2,
  );

const load = (options: Partial<DirectoryOptions> = {}) =>
  loadDirectory(store, directory, { strict: false, dryRun: false, ...options });
const idsIn = async (registry = store) => (await registry.list()).records.map((record) => record.server_id);

async function problems(options: Partial<DirectoryOptions> = {}): Promise<string[]> {
  const result = await load(options);
  return result.problems.map(
    (problem) => `${problem.severity} ${describeProblem(directory, problem).slice(directory.length + 1)}`,
  );
}

describe('a directory', () => {
  it('has one server per file, TOML or JSON', async () => {
    write(
      'gitlab.toml',
      [
        'version = 1',
        'server_id = "gitlab"',
        'display_name = "GitLab"',
        'transport = "stdio"',
        'allowed_tools = ["read_*", "search_*"]',
        '[stdio]',
        'command = "uvx"',
        'args = ["gitlab@latest"]',
        'env_from = ["MCP_GITLAB_TOKEN"]',
        '[stdio.env]',
        'URL = "https://gitlab.example"',
        '[budgets]',
        'tool_timeout_ms = 9000',
      ].join('\n'),
    );
    write('fs.json', json('fs'));
    const result = await load();
    expect(result).toMatchObject({ outcome: 'applied', problems: [] });
    expect(await idsIn()).toEqual(['fs', 'gitlab']);
    expect(await store.get('gitlab')).toMatchObject({
      display_name: 'GitLab',
      allowed_tools: ['read_*', 'search_*'],
      stdio: {
        command: 'uvx',
        args: ['gitlab@latest'],
        env: { URL: 'https://gitlab.example', MCP_GITLAB_TOKEN: `\${ENV:MCP_GITLAB_TOKEN}` },
      },
      budgets: { tool_timeout_ms: 9000, max_concurrency: 8 },
    });
  });

  it('ignores hidden, temporary and other files, and subdirectories', async () => {
    for (const name of ['.hidden.toml', 'a.toml~', '#a.toml#', 'a.toml.swp', 'b.toml.tmp', '~c.toml', 'd.tmp.toml']) {
      write(name, toml('unwanted'));
    }
    write('readme.md', 'hello');
    write('upper.TOML', toml('unwanted'));
    mkdirSync(join(directory, 'below'));
    write('below/e.toml', toml('unwanted'));
    mkdirSync(join(directory, 'folder.toml'));
    write('good.toml', toml('good'));
    expect(await problems()).toEqual([]);
    expect(await idsIn()).toEqual(['good']);
  });

  it('does not follow links to the outside, and reports them', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'spear-out-'));
    writeFileSync(join(outside, 'x.toml'), toml('outside'));
    symlinkSync(join(outside, 'x.toml'), join(directory, 'link.toml'));
    // Its name begins as that of the directory does.
    mkdirSync(`${directory}-twin`);
    writeFileSync(`${directory}-twin/y.toml`, toml('outside'));
    symlinkSync(`${directory}-twin/y.toml`, join(directory, 'twin.toml'));
    const leftOut = 'is a symbolic link to a target outside its directory and is skipped';
    expect(await problems()).toEqual([`warning link.toml: ${leftOut}`, `warning twin.toml: ${leftOut}`]);
    expect(await idsIn()).toEqual([]);
    rmSync(outside, { recursive: true });
    rmSync(`${directory}-twin`, { recursive: true });
  });

  it('may be a mounted ConfigMap, even while it is replaced', async () => {
    const generation = (name: string, ids: readonly string[]) => {
      mkdirSync(join(directory, name));
      for (const id of ids) write(`${name}/${id}.toml`, toml(id, `display_name = "${name}"`));
      symlinkSync(name, join(directory, '..data_tmp'));
      renameSync(join(directory, '..data_tmp'), join(directory, '..data'));
    };
    generation('..2026_01', ['a', 'b']);
    for (const id of ['a', 'b']) symlinkSync(`..data/${id}.toml`, join(directory, `${id}.toml`));
    expect(await problems()).toEqual([]);
    expect(await idsIn()).toEqual(['a', 'b']);

    // The new one lacks a file whose link is still there: that is a bad file, not one that went away.
    generation('..2026_02', ['a']);
    rmSync(join(directory, '..2026_01'), { recursive: true });
    expect(await problems()).toEqual(['error b.toml: is a symbolic link whose target is not a file']);
    expect(await idsIn()).toEqual(['a', 'b']);
    expect((await store.get('a'))?.display_name).toBe('..2026_02');
    remove('b.toml');
    await load();
    expect(await idsIn()).toEqual(['a']);
  });

  it('does not block on a pipe with the name of a record file', async () => {
    execFileSync('mkfifo', [join(directory, 'pipe.toml')]);
    write('good.toml', toml('good'));
    expect(await problems()).toEqual([]);
    expect(await idsIn()).toEqual(['good']);
  });

  it('that does not exist is an error that names it, and nothing changes', async () => {
    write('a.toml', toml('a'));
    await load();
    renameSync(directory, `${directory}-moved`);
    await expect(load()).rejects.toThrow(`the MCP server directory ${directory} cannot be read (ENOENT)`);
    expect(await idsIn()).toEqual(['a']);
    renameSync(`${directory}-moved`, directory);
  });

  it('with one server in two files uses the last by name, and reports both', async () => {
    write('20-b.toml', toml('fs', 'display_name = "second"'));
    write('10-a.json', json('fs', { display_name: 'first' }));
    expect(await problems()).toEqual([
      'warning 20-b.toml:2: server_id "fs" is also defined in 10-a.json; 20-b.toml is later in name order and is used',
    ]);
    expect(await store.get('fs')).toMatchObject({ display_name: 'second' });
  });
});

describe('an invalid file', () => {
  it.each<[string, string, string, string]>([
    ['broken TOML', 'x.toml', 'server_id = "x"\ntransport = = 1', 'x.toml:2: is not valid TOML: '],
    ['a key twice in TOML', 'x.toml', 'server_id = "x"\nserver_id = "y"', 'x.toml:2: is not valid TOML: '],
    ['a field in TOML', 'x.toml', toml('x', 'tool_prefix = "a b"'), 'x.toml:5: tool_prefix must contain only letters'],
    [
      'a field in a table',
      'x.toml',
      `${toml('x')}[budgets]\n\ntool_timeout_ms = 1`,
      'x.toml:10: budgets.tool_timeout_ms',
    ],
    [
      'a dotted field',
      'x.toml',
      toml('x', 'budgets.max_concurrency = -1'),
      'x.toml:5: budgets.max_concurrency must be',
    ],
    [
      'a field that is missing',
      'x.toml',
      'server_id = "x"\ntransport = "stdio"\n[stdio]\nargs = []',
      'x.toml:3: stdio.command',
    ],
    ['a quoted key', 'x.toml', `${toml('x')}[stdio.env]\n"A=B" = "1"`, 'x.toml:9: stdio.env["A=B"] a variable name'],
    ['an item', 'x.toml', toml('x', 'tags = ["a", ""]'), 'x.toml:5: tags[1] must not be empty'],
    [
      'after a long text',
      'x.toml',
      `${toml('x')}args = ["""\n[http]\ntags = 1\n"""]\ncwd = "a\\u0007"`,
      'x.toml:12: stdio.cwd must not contain control characters',
    ],
    ['a date', 'x.toml', toml('x', 'display_name = 2020-01-01'), 'x.toml:5: display_name must be a string'],
    [
      'broken JSON',
      'x.json',
      '{\n "server_id": "x",\n "a": tru\n}',
      'x.json:3: is not valid JSON: unexpected character',
    ],
    ['JSON with a comma too many', 'x.json', '{\n "a": [1,\n ]\n}', 'x.json:3: is not valid JSON: a value is missing'],
    ['JSON with a comma at its end', 'x.json', '{"a": 1,\n}', 'x.json:2: is not valid JSON: a key in double quotes'],
    ['JSON with a comment', 'x.json', '{\n // x\n}', 'x.json:2: is not valid JSON: unexpected character'],
    [
      'JSON with a text in two lines',
      'x.json',
      '{\n"a": "b\nc"}',
      'x.json:2: is not valid JSON: a string is not terminated',
    ],
    [
      'JSON with an escape of its own',
      'x.json',
      '{\n"a": "\\x"}',
      'x.json:2: is not valid JSON: a string has an invalid esc',
    ],
    ['JSON with a number of its own', 'x.json', '{\n"a": 01}', 'x.json:2: is not valid JSON: '],
    ['JSON in single quotes', 'x.json', "{\n'a': 1}", 'x.json:2: is not valid JSON: unexpected character'],
    ['JSON without a comma', 'x.json', '{\n "a": 1\n "b": 2}', 'x.json:3: is not valid JSON: a "," is missing'],
    ['two JSON values', 'x.json', '{}\n{}', 'x.json:2: is not valid JSON: unexpected text after the end'],
    ['JSON without an end', 'x.json', '{\n "a": 1\n\n', 'x.json:4: is not valid JSON: unexpected end of file'],
    ['JSON with a tail', 'x.json', '{}\n x', 'x.json:2: is not valid JSON: unexpected character'],
    ['JSON with a key twice', 'x.json', '{"a": 1,\n"a": 2}', 'x.json:2: is not valid JSON: duplicate key'],
    ['JSON with a control character', 'x.json', '{"a":\n"\u0001"}', 'x.json:2: is not valid JSON: a string contains'],
    ['an empty JSON file', 'x.json', '', 'x.json:1: is not valid JSON: unexpected end of file'],
    ['JSON that is too deep', 'x.json', '['.repeat(5000), 'x.json:1: is not valid JSON: nested deeper'],
    ['a field in JSON', 'x.json', json('x', { tags: ['a', ''] }), 'x.json:12: tags[1] must not be empty'],
    ['a value in JSON', 'x.json', json('x', { http: null, transport: 'ftp' }), 'x.json:3: transport must be'],
    ['a JSON list', 'x.json', '[1]', 'x.json: must be a table of fields'],
    ['a file that is too large', 'x.toml', `#${' '.repeat(300_000)}`, 'x.toml: has 300001 bytes, at most 262144'],
  ])('is reported with line and field: %s', async (_what, name, text, expected) => {
    write(name, text);
    write('good.toml', toml('good'));
    expect(await problems()).toEqual([expect.stringContaining(`error ${expected}`)]);
    expect(await idsIn()).toEqual(['good']);
  });

  it('that is not text is reported', async () => {
    writeFileSync(join(directory, 'x.json'), Buffer.from([0x7b, 0xff, 0x7d]));
    expect(await problems()).toEqual(['error x.json: is not UTF-8 text']);
  });

  it('never appears in a message with its content', async () => {
    const secret = 'sk-hunter2hunter2';
    write('a.toml', `server_id = "a"\nkey = ${secret}\n`);
    write('b.json', `{"key": "${secret}" oops}`);
    write('c.json', `{"key": ${secret}}`);
    write('d.toml', toml('d', `display_name = "x"\nsecret_field = "${secret}"`));
    const found = await problems();
    expect(found).toHaveLength(4);
    expect(found.join('\n')).not.toContain('hunter2');
  });

  it('makes a strict load refuse everything, like an unknown field', async () => {
    write('a.toml', toml('a'));
    write('b.toml', toml('b', 'colour = "red"'));
    expect(await load({ strict: true })).toMatchObject({
      outcome: 'refused',
      problems: [{ severity: 'error', file: 'b.toml', line: 5, field: 'colour' }],
    });
    expect(await idsIn()).toEqual([]);
    expect(await problems()).toEqual(['warning b.toml:5: colour is not a field of a server']);
    expect(await idsIn()).toEqual(['a', 'b']);
  });

  it('keeps its last valid record, by its name and by its server_id', async () => {
    write('a.toml', toml('a'));
    write('b.toml', toml('b'));
    await load();
    write('a.toml', 'server_id = ');
    rmSync(join(directory, 'b.toml'));
    write('renamed.toml', toml('b', 'tool_prefix = "!"'));
    const result = await load();
    expect(result.plan.changes).toEqual([]);
    expect(result.problems).toHaveLength(2);
    expect(await idsIn()).toEqual(['a', 'b']);
  });
});

describe('loading again', () => {
  it('applies changes and nothing else', async () => {
    write('a.toml', toml('a'));
    write('b.toml', toml('b'));
    write('c.toml', toml('c'));
    await load();
    const before = await store.revision();
    expect((await load()).plan).toEqual({ changes: [], unchanged: ['a', 'b', 'c'], owned: 3 });
    expect(await store.revision()).toBe(before);

    write('a.toml', toml('a', 'display_name = "A"\ntags = ["x"]'));
    remove('b.toml');
    write('d.toml', toml('d'));
    const { plan } = await load();
    expect(plan.changes.map(({ action, id, file }) => `${action} ${id} ${file}`)).toEqual([
      'update a a.toml',
      'create d d.toml',
      'delete b b.toml',
    ]);
    expect(plan.changes[0]).toMatchObject({ fields: ['display_name', 'tags'] });
    expect(await idsIn()).toEqual(['a', 'c', 'd']);
  });

  it('removes a server whose file now defines another one', async () => {
    write('a.toml', toml('a'));
    await load();
    write('a.toml', toml('b'));
    await load();
    expect(await idsIn()).toEqual(['b']);
  });

  it('keeps a server that moved to another file', async () => {
    write('a.toml', toml('a'));
    await load();
    const before = await store.revision();
    renameSync(join(directory, 'a.toml'), join(directory, 'z.toml'));
    await load();
    expect(await store.revision()).toBe(before);
    remove('z.toml');
    await load({ allowMassRemoval: true });
    expect(await idsIn()).toEqual([]);
  });

  it('never removes servers that were registered through the API [directory.origin]', async () => {
    await store.upsert(sampleRecord('mine'));
    write('a.toml', toml('a'));
    write('mine.json', json('mine', { stdio: { command: 'server' } }));
    await load();
    // The same content: the file did not bring it.
    remove('mine.json');
    remove('a.toml');
    await load({ allowMassRemoval: true });
    expect(await idsIn()).toEqual(['mine']);
  });

  it('keeps a record that a user changed after it was loaded, when its file is removed [directory.origin]', async () => {
    write('a.toml', toml('a'));
    await load();
    await store.upsert(sampleRecord('a', { display_name: 'edited' }));
    remove('a.toml');
    await load();
    expect(await store.get('a')).toMatchObject({ display_name: 'edited' });
  });

  it('remembers the origin of records across a restart [directory.origin]', async () => {
    const path = join(directory, 'data', 'registry.db');
    write('a.toml', toml('a'));
    const first = openSqliteStore(path);
    await first.servers.upsert(sampleRecord('mine'));
    await loadDirectory(first.servers, directory, { strict: true, dryRun: false });
    expect(await idsIn(first.servers)).toEqual(['a', 'mine']);
    await first.close();
    remove('a.toml');
    const second = openSqliteStore(path);
    await loadDirectory(second.servers, directory, { strict: true, dryRun: false, allowMassRemoval: true });
    expect(await idsIn(second.servers)).toEqual(['mine']);
    await second.close();
  });

  it.each([
    { had: 8, removed: 3, refused: false },
    { had: 8, removed: 4, refused: true },
    { had: 17, removed: 4, refused: false },
    { had: 1, removed: 1, refused: true },
  ])('of $had servers without $removed is refused as a mistake: $refused [directory.mass_removal]', async (given) => {
    const names = Array.from({ length: given.had }, (_, index) => `s${index}`);
    for (const name of names) write(`${name}.toml`, toml(name));
    await load();
    for (const name of names.slice(0, given.removed)) remove(`${name}.toml`);
    const before = await store.revision();
    const result = await load();
    expect(result.outcome).toBe(given.refused ? 'refused' : 'applied');
    if (!given.refused) return;
    expect(result.refusal).toContain('--allow-mass-removal');
    expect(await store.revision()).toBe(before);
    expect((await load({ dryRun: true })).outcome).toBe('refused');
    expect(await load({ allowMassRemoval: true })).toMatchObject({ outcome: 'applied', refusal: null });
    expect(await idsIn()).toEqual(names.slice(given.removed).sort());
  });

  it('plans again after a concurrent write, and does not overwrite it [directory.origin]', async () => {
    write('a.toml', toml('a'));
    write('b.toml', toml('b'));
    await load();
    remove('a.toml');
    write('b.toml', toml('b', 'display_name = "B"'));
    const { apply } = store;
    let calls = 0;
    store.apply = async (changes) => {
      calls += 1;
      if (calls === 1) await store.upsert(sampleRecord('a', { display_name: 'mine now' }));
      return apply.call(store, changes);
    };
    expect((await load()).plan.changes).toMatchObject([{ action: 'update', id: 'b' }]);
    expect(calls).toBe(2);
    expect(await store.get('a')).toMatchObject({ display_name: 'mine now' });
    expect(await store.get('b')).toMatchObject({ display_name: 'B' });
  });

  it('as a dry run reports the same and changes nothing', async () => {
    write('a.toml', toml('a'));
    await load();
    write('a.toml', toml('a', 'display_name = "A"'));
    write('b.toml', toml('b'));
    const before = await store.list();
    const dry = await load({ dryRun: true });
    expect(dry.outcome).toBe('dry_run');
    expect(await store.list()).toEqual(before);
    const real = await load();
    expect(real.plan).toEqual(dry.plan);
  });
});
