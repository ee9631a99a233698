import { describe, expect, it } from 'vitest';
import { convertResult } from '../../../../src/agent/mcp/client/tool-result.ts';
import { call, openPool, stdioRecord } from './pool-samples.ts';

const record = stdioRecord('odd', 'odd-answers.mjs');

describe('an answer that is no result', () => {
  it.each([
    ['task', /^tool "task" started an MCP task instead of returning a result/],
    ['input', /^tool "input" requested more input instead of returning a result/],
  ])('%s is no success [pool.result.unfinished]', async (tool, message) => {
    const { pool } = openPool();
    const { error, ok } = await call(pool, record, tool);
    expect(ok).toBe(false);
    expect(error).toEqual({ code: 'mcp_tool_error', message: expect.stringMatching(message), retryable: false });
  });

  it.each([
    [{ resultType: 'task', content: [] }, 'started an MCP task'],
    [{ resultType: 'input_required', content: [] }, 'requested more input'],
    [{ resultType: 'later', content: [] }, 'an unknown type of result ("later")'],
  ])('is told by its kind: %j [pool.result.unfinished]', (result, message) => {
    const same = (text: string) => text;
    const bounds = { maxOutputBytes: 1_000, outputProblem: null, keepsMeta: false, redact: same, redactContent: same };
    expect(() => convertResult(result, { serverId: 's', toolName: 't', ...bounds })).toThrow(message);
    expect(convertResult({ ...result, resultType: 'complete' }, { serverId: 's', toolName: 't', ...bounds })).toEqual({
      json: '{"content":[]}',
      error: null,
    });
  });
});

it('an address that has to be opened first is in the error, if it is one for a browser', async () => {
  const { pool } = openPool();
  const { error } = await call(pool, record, 'url');
  expect(error).toEqual({
    code: 'mcp_tool_error',
    message: 'tool "url": please log in (open first: https://auth.example.test/start?x=1)',
    retryable: false,
  });
});
