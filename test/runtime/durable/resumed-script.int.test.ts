import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { runTask, scriptedBackend } from '../../../src/index.ts';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { fixture } from '../../library/fixtures.ts';
import { newFile, scratch } from './recorded-runs.ts';

const call = (a: number, b: number) => ({ id: 'sum', name: 'sum', arguments: { a, b } });
/** Without matchers: only its place in the script distinguishes a turn from the others. */
const turns = [
  { reply: { tool_calls: [call(1, 1)] } },
  { reply: { tool_calls: [call(2, 40)] } },
  { reply: { content: 'the end' } },
];

async function run(journal: object) {
  const printed: Uint8Array[] = [];
  const { exitCode, message } = await runTask({
    wasm: fixture('c/sum.wasm'),
    config: `${scratch}/config.toml`,
    backend: await scriptedBackend({ turns } as never),
    output: (_, bytes) => void printed.push(bytes),
    journal: journal as never,
  });
  return { exitCode, message, text: Buffer.concat(printed).toString() };
}

/** Answers of the model, without their ids and in order. */
const answersIn = (file: string) =>
  readJournal(file).records.flatMap((record) => (record.t === 'model.answered' ? [record.body?.choices] : []));

describe('a resumed run with a scripted model', () => {
  it('continues the script after the recorded answers, wherever it was killed [journal.resume.script]', async () => {
    writeFileSync(`${scratch}/config.toml`, '');
    const whole = newFile();
    expect(await run({ file: whole })).toMatchObject({ exitCode: 0, message: null });
    const answers = answersIn(whole);
    expect(answers).toHaveLength(3);
    const lines = readFileSync(whole, 'utf8').split(/(?<=\n)/);
    const ends = lines.flatMap((line, index) => (/"t":"model\.(asked|answered)"/.test(line) ? [index + 1] : []));
    for (const end of ends) {
      const killed = newFile();
      writeFileSync(killed, lines.slice(0, end).join(''));
      expect(await run({ file: killed, mode: 'resume' })).toMatchObject({ exitCode: 0, message: null });
      expect(answersIn(killed)).toEqual(answers);
    }
  });
});
