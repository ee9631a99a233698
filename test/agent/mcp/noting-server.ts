import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { type StdioSample, stdioRecord } from './client/pool-records.ts';
import { eventually, tempDir } from './client/pool-samples.ts';

/** A server that notes what it is asked in a file, line by line. */
export interface NotingServer {
  readonly record: McpServerRecord;
  lines(): string[];
  /** Resolves when the file has these lines, by their first words. */
  until(...words: string[]): Promise<void>;
}

/** Of a file that need not be there yet. */
export function linesOf(trail: string): string[] {
  try {
    return readFileSync(trail, 'utf8').split('\n').slice(0, -1);
  } catch {
    return [];
  }
}

export function notingServer(
  id: string,
  script: 'counting.mjs' | 'mid-call.mjs',
  sample: StdioSample = {},
): NotingServer {
  const trail = join(tempDir(), 'trail');
  const lines = () => linesOf(trail);
  return {
    record: stdioRecord(id, script, { ...sample, env: { TRAIL: trail } }),
    lines,
    until: (...words) => eventually(() => expect(lines().map((line) => line.split(' ')[0])).toEqual(words)),
  };
}
