import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fixture, scratch, spearRun } from '../../e2e/spear-run.ts';

const sum = fixture('c/sum.wasm');
const script = (name: string, turns: readonly object[]) => {
  const file = join(scratch, `${name}.json`);
  writeFileSync(file, JSON.stringify({ turns }));
  return file;
};

describe('spear-run --follow', () => {
  const turns = script('follow', [
    {
      when: { role: 'user' },
      reply: {
        content: 'I will\nadd \u001b[2Jthem.',
        tool_calls: [
          { id: 'a', name: 'sum', arguments: { a: 1, b: 2 } },
          { id: 'b', name: 'no\nsuch', arguments: {} },
        ],
      },
    },
    { reply: { content: 'spear-run: three' } },
  ]);

  it('shows what the model says and calls to whoever runs a guest that does not stream [cli.follow]', async () => {
    const { code, stdout, stderr } = await spearRun([sum, '--script', turns, '--follow', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ exit_code: 0, model_calls: 2 });
    const followed = stderr.split('\n').filter((line) => line.startsWith('chat-'));
    expect(followed).toEqual([
      'chat-1000 | I will',
      'chat-1000 | add \\u{1b}[2Jthem.',
      'chat-1000 calls sum',
      'chat-1000 calls no\\nsuch',
      'chat-1000 error of no\\nsuch',
      'chat-1000 result of sum',
      'chat-1000 | spear-run: three',
    ]);
  });

  it('says nothing where it was not asked to, and tells an error [cli.follow]', async () => {
    const quiet = await spearRun([sum, '--script', turns]);
    expect(quiet.stderr).toBe('');
    const failing = script('follow-error', [{ error: { status: 400, message: 'no' } }]);
    const { stderr } = await spearRun([sum, '--script', failing, '--follow']);
    expect(stderr).toContain('chat-1000 failed: invalid_request: ');
  });
});
