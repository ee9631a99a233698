import { PassThrough } from 'node:stream';
import { finished } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { StderrLog } from '../../../../../src/agent/mcp/client/process/stderr-log.ts';
import { Redactor } from '../../../../../src/server/secrets/redactor.ts';

async function logged(chunks: readonly (string | Buffer | (() => void))[], now = () => 0) {
  const lines: string[] = [];
  const limits = { stderrLineChars: 100, stderrWindowBytes: 1_000, stderrWindowMs: 10_000 };
  const log = new StderrLog({
    limits,
    redact: new Redactor().scoped(['s3cret']),
    emit: (line) => lines.push(line),
    now,
  });
  const stream = new PassThrough();
  log.attach(stream);
  for (const chunk of chunks) {
    if (typeof chunk === 'function') {
      await new Promise(setImmediate);
      chunk();
    } else stream.write(chunk);
  }
  stream.end();
  await finished(stream);
  await new Promise(setImmediate);
  return { lines, last: log.lastLine };
}

describe('stderr', () => {
  it('is split into lines, whatever the chunks', async () => {
    const bytes = Buffer.from('grüße\r\n\nsecond');
    const { lines, last } = await logged([bytes.subarray(0, 3), bytes.subarray(3, 4), bytes.subarray(4)]);
    expect(lines).toEqual(['grüße', 'second']);
    expect(last).toBe('second');
  });

  it('has long lines cut after they are redacted', async () => {
    const { lines } = await logged([`${'x'.repeat(97)}s3cret and more\n`, 'y'.repeat(200_000), '\n']);
    expect(lines[0]).toBe(`${'x'.repeat(97)}[re…`);
    expect(lines[1]).toBe(`${'y'.repeat(100)}…`);
  });

  it('is dropped above the limit of a time window, and the dropped bytes are counted', async () => {
    let now = 0;
    const line = `${'z'.repeat(99)}\n`;
    const later = () => {
      now = 10_001;
    };
    const { lines } = await logged([line.repeat(25), later, 'after\n'], () => now);
    expect(lines.filter((text) => text.startsWith('z'))).toHaveLength(10);
    expect(lines.slice(10)).toEqual(['(1485 bytes of stderr were dropped)', 'after']);
  });
});
