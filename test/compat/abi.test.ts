import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type AbiTable, abiTable } from '../../scripts/compat/abi-table.ts';

const frozen = JSON.parse(
  readFileSync(new URL('../../fixtures/compat/abi-1.1.json', import.meta.url), 'utf8'),
) as AbiTable;
const current = abiTable();

const supportLevels = ['absent', 'partial', 'full'];

describe('the ABI of version 1.1', () => {
  it.each(Object.entries(frozen.calls))('%s keeps its signature, commands and errnos [compat.abi]', (name, before) => {
    const now = current.calls[name];
    if (now === undefined) throw new Error(`${name} is gone`);
    const { params, result, gives, mode, records } = before;
    expect(JSON.parse(JSON.stringify(now))).toMatchObject({ params, result, gives, mode, records });
    expect(now.commands).toMatchObject(before.commands);
    expect(now.errnos).toEqual(expect.arrayContaining(before.errnos));
    expect(supportLevels.indexOf(now.support)).toBeGreaterThanOrEqual(supportLevels.indexOf(before.support));
  });

  it('keeps every errno, feature, limit and constant [compat.abi]', () => {
    expect(current.errno).toMatchObject(frozen.errno);
    expect(current.features).toEqual(expect.arrayContaining(frozen.features));
    expect(current.limits).toMatchObject(frozen.limits);
    // The minor version is the one constant that may rise.
    const { SPEAR_ABI_MINOR: minor, ...constants } = frozen.constants;
    expect(current.constants).toMatchObject(constants);
    expect(current.constants.SPEAR_ABI_MINOR).toBeGreaterThanOrEqual(minor ?? 0);
  });

  it('keeps the major version [compat.abi]', () => {
    expect(current.version.split('.')[0]).toBe(frozen.version.split('.')[0]);
  });
});
