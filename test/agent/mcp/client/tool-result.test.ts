import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { McpOutputError, McpTimeoutError, McpToolError } from '../../../../src/agent/mcp/client/errors.ts';
import { convertError, convertResult, TRUNCATION_MARK } from '../../../../src/agent/mcp/client/tool-result.ts';
import type { JsonObject } from '../../../../src/base/json.ts';

function convert(
  result: JsonObject,
  maxOutputBytes = 1_000_000,
  outputProblem: string | null = null,
  keepsMeta = false,
) {
  const redact = (text: string) => text.replaceAll('s3cret', '[redacted]');
  const redactContent = redact;
  const about = { serverId: 'fs', toolName: 'read', maxOutputBytes, outputProblem, keepsMeta };
  return convertResult(result, { ...about, redact, redactContent });
}

const text = (value: string) => ({ type: 'text', text: value });
const image = { type: 'image', data: 'aGVsbG8=', mimeType: 'image/png', annotations: { audience: ['user'] } };
const resource = { type: 'resource', resource: { uri: 'file:///a', mimeType: 'text/plain', text: 'inside' } };
const link = { type: 'resource_link', uri: 'file:///b', name: 'b' };

describe('a result', () => {
  it('keeps the shape of everything in it, as compact JSON with sorted keys [pool.result.shape]', () => {
    const content = [text('a'), image, { type: 'audio', data: 'AA==', mimeType: 'audio/wav' }, resource, link];
    const output = convert({ content, structuredContent: { z: 1, a: [true, null] } });
    expect(output.error).toBeNull();
    expect(JSON.parse(output.json)).toEqual({ content, structuredContent: { z: 1, a: [true, null] } });
    expect(output.json).toMatch(
      /^\{"content":\[\{"text":"a","type":"text"\},.*"structuredContent":\{"a":\[true,null\],"z":1\}\}$/,
    );
  });

  it('may have no content [pool.result.shape]', () => {
    expect(convert({ structuredContent: { n: 1 } }).json).toBe('{"content":[],"structuredContent":{"n":1}}');
    expect(convert({ content: [], _meta: { trace: 'x' } }).json).toBe('{"content":[]}');
  });

  it('has its _meta for a program, as it is but for secrets, with a failure too [pool.result.shape]', () => {
    const _meta = { 'example.com/trace': { id: 7, tags: ['a s3cret'] } };
    const shown = { 'example.com/trace': { id: 7, tags: ['a [redacted]'] } };
    const block = { ...text('a'), _meta: { origin: 'x' } };
    expect(JSON.parse(convert({ content: [block], _meta }, 1_000, null, true).json)).toEqual({
      _meta: shown,
      content: [block],
    });
    expect(JSON.parse(convert({ content: [block], _meta, isError: true }, 1_000, null, true).json)).toMatchObject({
      _meta: shown,
    });
    expect(convert({ content: [text('x'.repeat(900))], _meta }, 600, null, true).json).not.toContain('_meta');
  });

  it('with isError is a failed call that keeps its content', () => {
    const output = convert({ content: [image, text('no such file')], isError: true });
    expect(output.error).toEqual({ code: 'mcp_tool_error', message: 'no such file', retryable: false });
    expect(JSON.parse(output.json)).toEqual({ content: [image, text('no such file')], error: output.error });
    expect(convert({ content: [], isError: true }).error?.message).toBe('tool "read" reported an error');
  });

  it('never puts a secret or a whole page into the message of an error', () => {
    expect(convert({ content: [text('login s3cret failed')], isError: true }).error?.message).toBe(
      'login [redacted] failed',
    );
    expect(convert({ content: [text('x'.repeat(5_000))], isError: true }).error?.message.length).toBeLessThan(600);
  });

  it('shows no secret of the server in any of its strings', () => {
    const leaked = { env: { TOKEN: 's3cret' }, list: ['a s3cret', 1, null] };
    const { json, error } = convert({ content: [text('TOKEN=s3cret'), resource], structuredContent: leaked });
    expect(error).toBeNull();
    expect(JSON.parse(json)).toEqual({
      content: [text('TOKEN=[redacted]'), resource],
      structuredContent: { env: { TOKEN: '[redacted]' }, list: ['a [redacted]', 1, null] },
    });
    expect(convert({ content: [text(`s3cret ${'x'.repeat(500)}`)] }, 300).json).not.toContain('s3cret');
  });

  it('whose structured part breaks its schema is a failed call without that part', () => {
    const output = convert(
      { content: [text('a')], structuredContent: { n: 'x' } },
      1_000,
      'structuredContent/n is odd',
    );
    expect(output.error).toMatchObject({
      code: 'mcp_tool_error',
      message: expect.stringContaining('structuredContent/n is odd'),
    });
    expect(JSON.parse(output.json)).toEqual({ content: [text('a')], error: output.error });
  });

  it.each([
    ['content is no list', { content: 'text' }],
    ['an entry is no object', { content: ['text'] }],
    ['an entry has no type', { content: [{ text: 'a' }] }],
  ])('is refused where %s [pool.result.shape]', (_, result) => {
    expect(() => convert(result)).toThrow(McpToolError);
  });

  it('nested beyond reason is an error, not a crash [pool.result.shape]', () => {
    let deep: JsonObject = {};
    for (let i = 0; i < 100_000; i++) deep = { deep };
    expect(() => convert({ content: [], structuredContent: deep })).toThrow(/nested too deeply/);
  });
});

describe('a result beyond its bound', () => {
  const tooLarge = { code: 'mcp_output_too_large', retryable: false };

  it('is cut between two characters, with a marker and an error [pool.result.too-large]', () => {
    const output = convert({ content: [text('ä€😀'.repeat(1_000))] }, 1_000);
    const { content, error } = JSON.parse(output.json);
    expect(error).toMatchObject(tooLarge);
    expect(output.error).toEqual(error);
    expect(error.message).toContain('the limit is 1000');
    const kept = content[0].text.slice(0, -TRUNCATION_MARK.length);
    expect(content[0].text.endsWith(TRUNCATION_MARK)).toBe(true);
    expect('ä€😀'.repeat(1_000).startsWith(kept)).toBe(true);
    expect(kept.isWellFormed()).toBe(true);
    expect(Buffer.byteLength(output.json)).toBeLessThanOrEqual(1_000);
    expect(Buffer.byteLength(output.json)).toBeGreaterThan(990);
  });

  it('keeps what fits before the cut, and leaves out the rest and the structured part [pool.result.too-large]', () => {
    const content = [text('first'), image, text('x'.repeat(5_000)), text('last')];
    const output = JSON.parse(convert({ content, structuredContent: { a: 1 } }, 2_000).json);
    expect(output.content.slice(0, 2)).toEqual([text('first'), image]);
    expect(output.content).toHaveLength(3);
    expect(output.structuredContent).toBeUndefined();
  });

  it('replaces what cannot be cut by a note [pool.result.too-large]', () => {
    const content = [{ type: 'image', data: 'A'.repeat(9_000), mimeType: 'image/png' }, text('after')];
    const output = JSON.parse(convert({ content }, 1_000).json);
    expect(output.content).toEqual([text('[image of 9049 bytes omitted]'), text('after')]);
  });

  it('cuts the text inside a resource and keeps its shape [pool.result.too-large]', () => {
    const content = [{ type: 'resource', resource: { uri: 'file:///a', text: 'y'.repeat(9_000) } }];
    const output = JSON.parse(convert({ content }, 1_000).json);
    expect(output.content[0]).toMatchObject({ type: 'resource', resource: { uri: 'file:///a' } });
    expect(output.content[0].resource.text.endsWith(TRUNCATION_MARK)).toBe(true);
  });

  it('never exceeds the bound and never breaks a character, whatever the text [pool.result.too-large]', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'binary', maxLength: 300 }), { maxLength: 8 }),
        fc.integer({ min: 400, max: 3_000 }),
        (texts, bound) => {
          const output = convert({ content: texts.map(text) }, bound);
          expect(Buffer.byteLength(output.json)).toBeLessThanOrEqual(bound);
          const { content, error } = JSON.parse(output.json);
          if (error === undefined) expect(content).toEqual(texts.map(text));
          else {
            expect(error.code).toBe('mcp_output_too_large');
            const joined = content.map((block: { text: string }) => block.text.replace(TRUNCATION_MARK, '')).join('');
            expect(texts.join('').startsWith(joined)).toBe(true);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('gives the bare error where there is no room for anything else [pool.result.too-large]', () => {
    expect(Object.keys(JSON.parse(convert({ content: [text('x'.repeat(100))] }, 10).json))).toEqual(['error']);
  });
});

describe('a call without a result', () => {
  it('is an error with code, message and retryable', () => {
    expect(convertError(new McpTimeoutError('fs', 5, 'tool "read"'), 1_000).json).toBe(
      '{"error":{"code":"mcp_timeout","message":"tool \\"read\\" took longer than 5 ms","retryable":true}}',
    );
  });

  it('shows how an answer began that was too large to be read [pool.result.too-large]', () => {
    const output = JSON.parse(convertError(new McpOutputError('fs', 'too large', 'z'.repeat(50)), 1_000).json);
    expect(output).toMatchObject({
      error: { code: 'mcp_output_too_large' },
      content: [text(`${'z'.repeat(50)}${TRUNCATION_MARK}`)],
    });
  });
});
