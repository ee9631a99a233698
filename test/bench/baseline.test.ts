import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { baselineFor } from '../../bench/guard/baseline.ts';

it('compares with the baseline of this processor, else with the default one', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spear-baselines-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const write = (name: string, cpu: string) =>
    writeFileSync(join(folder, name), JSON.stringify({ environment: { cpu }, yardstickNs: {}, ratios: {} }));
  write('default.json', 'Intel');
  write('amd-epyc.json', 'AMD EPYC');
  expect(baselineFor('AMD EPYC', folder)).toBe(join(folder, 'amd-epyc.json'));
  expect(baselineFor('Intel', folder)).toBe(join(folder, 'default.json'));
  expect(baselineFor('Arm', folder)).toBe(join(folder, 'default.json'));
});
