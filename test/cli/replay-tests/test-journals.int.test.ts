import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type JournalTestOptions, testJournals } from '../../../src/cli/replay-tests/test-journals.ts';
import { NO_BLOCK, sealBlock } from '../../../src/runtime/durable/blocks.ts';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { runFixture } from '../../support/run-fixture.ts';
import { fixture, RecordedCorpus } from './recorded-corpus.ts';

const corpus = new RecordedCorpus();
afterAll(() => rmSync(corpus.folder, { recursive: true, force: true }));
const trail = readFileSync(corpus.trail, 'utf8');

async function judged(options: Omit<JournalTestOptions, 'journals'> & { journals?: JournalTestOptions['journals'] }) {
  const { runs } = await testJournals({ journals: corpus.journals, ...options });
  expect(readFileSync(corpus.trail, 'utf8'), 'a server was called').toBe(trail);
  return Object.fromEntries(runs.map((run) => [run.file.slice(corpus.journals.length + 1, -'.journal'.length), run]));
}

const allSame = { files: { verdict: 'same' }, own: { verdict: 'same' }, sum: { verdict: 'same' } };

describe('without any change', () => {
  it('every run is the same again, by its own module [journal.test]', async () => {
    expect(await judged({})).toMatchObject(allSame);
  });

  it('every run is the same under the policy that it had', async () => {
    expect(await judged({ policy: [corpus.records(), corpus.task()] })).toMatchObject({
      ...allSame,
      files: { verdict: 'same', noLongerShown: [], unfinished: false },
    });
  });
});

describe('under a changed policy', () => {
  it('a call of a tool that is allowed no more is named [journal.test-policy]', async () => {
    const { files, own, sum } = await judged({ policy: corpus.records({ allowed_tools: ['seen'] }) });
    expect(files).toMatchObject({
      verdict: 'differs',
      task: 'counting',
      difference: { by: 'policy', kind: 'denied', where: 'call 1.1.1, work of count with {"label":"a"}' },
    });
    expect(files?.difference?.now).toContain('denied by the registry');
    expect(own?.difference?.where).toContain('work of count with {"label":"x"}');
    expect(sum?.verdict).toBe('same');
  });

  it('a server that is gone denies its calls', async () => {
    const { files } = await judged({ policy: corpus.records({ server_id: 'other' }) });
    expect(files?.difference?.now).toContain('is not in the registry');
  });

  it('a rule about arguments denies the call that it means, and no other', async () => {
    const rule = { tools: ['work'], arguments: [{ path: '/label', equals: 'b' }], verdict: 'deny', name: 'no b' };
    const { files, own } = await judged({ policy: corpus.task({ 'mcp.approval_rules': [rule] }) });
    expect(files?.difference).toMatchObject({ kind: 'denied', now: expect.stringContaining('"no b"') });
    expect(files?.difference?.where).toContain('call 1.2.1, work of count with {"label":"b"}');
    expect(own?.verdict).toBe('same');
  });

  it('a call that nobody was asked about and needs an approval now is a difference', async () => {
    const policy = corpus.records({ approval_policy: { default: 'never', per_tool: { work: 'always' } } });
    const { files } = await judged({ policy });
    expect(files?.difference).toMatchObject({ kind: 'approval', recorded: 'the call was made' });
    expect(files?.difference?.now).toContain('needs an approval');
  });

  it('a call that was refused and would be let through is a difference', async () => {
    const { files, own } = await judged({ policy: [corpus.records(), corpus.task({ 'mcp.tool_denylist': [] })] });
    expect(files?.difference).toMatchObject({ kind: 'allowed', where: 'call 1.3.1, seen of count with {}' });
    expect(own?.verdict).toBe('same');
  });

  it('a tool that was only shown counts where that is asked for', async () => {
    const journals = corpus.journal('own');
    const policy = corpus.records({ allowed_tools: ['work'] });
    expect(await judged({ journals, policy, strict: true })).toMatchObject({ own: { verdict: 'same' } });
    const shown = corpus.task({ 'mcp.tool_denylist': ['seen'], 'mcp.tool_allowlist': ['work'] });
    expect(await judged({ policy: shown, strict: true })).toMatchObject({ files: { verdict: 'same' } });
  });

  it('a config with a name is about the runs of that task alone; a run that nothing is about is not judged', async () => {
    const denies = { 'mcp.tool_denylist': ['*'] };
    const { files, sum } = await judged({ policy: corpus.task(denies, 'another') });
    expect([files?.verdict, sum?.verdict]).toEqual(['unjudged', 'unjudged']);
    expect(files?.problem).toContain('"counting"');
    expect((await judged({ policy: [corpus.records(), corpus.task(denies, 'another')] })).files?.verdict).toBe('same');
  });

  it('half a policy is refused: a record that is wrong, or two configs of one task', async () => {
    const wrong = corpus.records();
    writeFileSync(join(wrong, 'broken.json'), '{');
    await expect(judged({ policy: wrong })).rejects.toThrow('broken.json');
    await expect(judged({ policy: [corpus.task(), corpus.task()] })).rejects.toThrow(
      'also configures the task "counting"',
    );
  });
});

describe('with a changed guest', () => {
  it('the same one is the same: models and tools are answered by the journal [journal.test-guest]', async () => {
    for (const [guest, name] of [
      ['c/files.wasm', 'files'],
      ['c/mcp.wasm', 'own'],
      ['c/sum.wasm', 'sum'],
    ] as const) {
      const journals = corpus.journal(name);
      expect(await judged({ journals, wasm: fixture(guest) })).toMatchObject({ [name]: { verdict: 'same' } });
    }
  });

  it('answers that were waited for at the same time come in the order in which they came', async () => {
    const file = join(corpus.folder, 'epoll.journal');
    const guest = fixture('c/epoll.wasm');
    const recorded = await runFixture('c/epoll.wasm', { backend: 'scripts/epoll.json', journal: { file } });
    expect(recorded.exitCode).toBe(0);
    const { runs } = await testJournals({ journals: file, wasm: guest });
    expect(runs[0]).toMatchObject({ verdict: 'same', difference: null });
  });

  it('another prompt is named, with both texts', async () => {
    const wasm = corpus.patched('c/files.wasm', 'Answer from the files', 'Answer from my folder');
    const { files } = await judged({ journals: corpus.journal('files'), wasm });
    expect(files?.difference).toEqual({
      by: 'module',
      kind: 'request',
      where: 'request 1 of chat-1000, message 1',
      recorded: 'system: Answer from the files you can read. Say which file a fact comes from.',
      now: 'system: Answer from my folder you can read. Say which file a fact comes from.',
    });
  });

  it('other output is named, with its place', async () => {
    const wasm = corpus.patched('c/files.wasm', 'question: ', 'QUESTION: ');
    const { files } = await judged({ journals: corpus.journal('files'), wasm });
    expect(files?.difference).toMatchObject({ kind: 'output', where: 'stdout, from byte 0' });
    expect(files?.difference?.now).toContain('QUESTION: What');
  });

  it('a guest that does something else altogether differs where it begins to', async () => {
    const { own } = await judged({ journals: corpus.journal('own'), wasm: fixture('c/hello.wasm') });
    expect(own).toMatchObject({ verdict: 'differs', difference: { by: 'module' } });
    const { sum } = await judged({ journals: corpus.journal('sum'), wasm: fixture('c/chat.wasm') });
    expect(sum?.difference?.where).toContain('request 1');
  });

  it('a guest that cannot be read is an error, and so is one that is none', async () => {
    await expect(judged({ wasm: join(corpus.folder, 'none.wasm') })).rejects.toThrow('no such file');
    const { sum } = await judged({ journals: corpus.journal('sum'), wasm: new Uint8Array([1, 2, 3]) });
    expect(sum?.difference).toMatchObject({ by: 'module', recorded: expect.any(String) });
  });
});

describe('journals that are not whole', () => {
  const other = join(corpus.folder, 'others');
  mkdirSync(other);

  it('one that was changed cannot be used, and the others are judged', async () => {
    const edited = join(other, 'edited.journal');
    writeFileSync(edited, readFileSync(corpus.journal('files'), 'utf8').replace('all done', 'ALL DONE'));
    copyFileSync(corpus.journal('sum'), join(other, 'whole.journal'));
    const { runs, total } = await testJournals({ journals: other, policy: corpus.records() });
    expect(total).toBe(2);
    expect(runs.map(({ verdict }) => verdict)).toEqual(['unusable', 'same']);
    expect(runs[0]?.problem).toContain('edited.journal: line');
    rmSync(edited);
  });

  it('one that ends early is judged as far as it goes', async () => {
    const cut = join(other, 'cut.journal');
    const lines = readFileSync(corpus.journal('files'), 'utf8').split('\n');
    const at = lines.findIndex((line) => line.includes('"t":"tool.started"'));
    writeFileSync(cut, `${lines.slice(0, at + 1).join('\n')}\n`);
    for (const options of [{}, { wasm: fixture('c/files.wasm') }, { policy: corpus.records() }]) {
      const { runs } = await testJournals({ journals: cut, ...options });
      expect(runs[0], JSON.stringify(options)).toMatchObject({ verdict: 'same', unfinished: true });
    }
    rmSync(cut);
  });

  it('there must be some', async () => {
    const empty = join(corpus.folder, 'empty');
    mkdirSync(empty);
    await expect(testJournals({ journals: empty })).rejects.toThrow('contains no journal');
    await expect(testJournals({ journals: [] })).rejects.toThrow('name a journal');
    await expect(testJournals({ journals: empty, jobs: 0 })).rejects.toThrow('jobs: expected');
    const unknown = { journals: empty, polices: [] } as JournalTestOptions;
    await expect(testJournals(unknown)).rejects.toThrow('did you mean "policy"');
  });
});

describe('a journal that was written by somebody else', () => {
  it.each([
    [
      'a header without a policy',
      { t: 'header', format: 1, abi: [1, 1], run: 'r', limits: {}, wasm: { path: null } },
      [],
    ],
    ['records of other shapes', null, [{ t: 'tools' }, { t: 'tool.started', session: 1 }, { t: 'model.asked' }]],
  ])('%s cannot be used, and ends nothing else', async (_what, header, records) => {
    const first = header ?? readJournal(corpus.journal('files')).header;
    const file = join(corpus.folder, 'strange.journal');
    writeFileSync(
      file,
      sealBlock(
        [first, ...records].map((line) => JSON.stringify(line)),
        NO_BLOCK,
      ).text,
    );
    for (const options of [{ policy: corpus.records() }, { wasm: fixture('c/files.wasm') }]) {
      const { runs } = await testJournals({ journals: [file, corpus.journal('sum')], ...options });
      expect(runs).toHaveLength(2);
      expect(runs[0]).toMatchObject({ verdict: 'unusable', problem: expect.stringContaining('strange.journal: ') });
    }
  });

  it('one whose module is gone cannot be replayed, and says which it was', async () => {
    const { header } = readJournal(corpus.journal('sum'));
    const file = join(corpus.folder, 'moved.journal');
    const moved = { ...header, wasm: { ...header.wasm, path: '/nowhere/sum.wasm' } };
    writeFileSync(file, sealBlock([JSON.stringify(moved)], NO_BLOCK).text);
    const { runs } = await testJournals({ journals: file });
    expect(runs[0]?.problem).toBe(`${file}: module /nowhere/sum.wasm: no such file`);
  });
});
