import { expect, it } from 'vitest';
import { MAX_RESPONSES, ResponseLimiter } from '../../../../../src/agent/mcp/client/transport/transport.ts';

it('answers no more questions of a server at a time than the bound, and goes on when some have arrived', async () => {
  const answers = new ResponseLimiter();
  const arrive: (() => void)[] = [];
  const answer = () => new Promise<void>((resolve) => arrive.push(resolve));
  const flood = Array.from({ length: 10 * MAX_RESPONSES }, () => answers.send(answer));
  expect(arrive).toHaveLength(MAX_RESPONSES);
  for (const done of arrive.splice(0)) done();
  await Promise.all(flood);
  const next = answers.send(answer);
  expect(arrive).toHaveLength(1);
  arrive[0]?.();
  await next;
});

it('makes room for the next after an answer that could not be sent', async () => {
  const answers = new ResponseLimiter();
  for (let i = 0; i < 2 * MAX_RESPONSES; i++) {
    await expect(answers.send(() => Promise.reject(new Error('refused')))).rejects.toThrow('refused');
  }
});
