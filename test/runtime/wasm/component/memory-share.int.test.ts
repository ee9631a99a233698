import { describe, expect, it } from 'vitest';
import { compileLimits } from '../../../../src/runtime/port/limits.ts';
import { readComponent } from '../../../../src/runtime/wasm/component/component-binary.ts';
import { linkComponent } from '../../../../src/runtime/wasm/component/link-component.ts';
import { shareLimits } from '../../../../src/runtime/wasm/component/prepare-component.ts';
import { fromText } from '../../../support/component-text.ts';
import { runFixture } from '../../../support/run-fixture.ts';

const GENEROUS_MS = 120_000;
const PAGE = 65_536;

async function shares(body: string, limits: { readonly memory_bytes?: number; readonly table_elements?: number }) {
  const { coreInstances } = linkComponent(readComponent(await fromText(`(component ${body})`)));
  const modules = coreInstances.map(({ module }) => module);
  const starts = {
    memories: modules.flatMap(({ memories }) => memories.map(({ min }) => min)),
    tables: modules.flatMap(({ tables }) => tables.map(({ min }) => min)),
  };
  return shareLimits(starts, compileLimits(limits));
}

const memory = (name: string, pages: number) => `(core module $${name} (memory ${pages}))`;
const table = (name: string, entries: number) => `(core module $${name} (table ${entries} funcref))`;
const instance = (name: string) => `(core instance (instantiate $${name}))`;

describe('what the memories of a component may grow to', () => {
  it('one has it all [component.memory]', async () => {
    const { maxPages } = await shares(`${memory('a', 3)} ${instance('a')}`, { memory_bytes: 100 * PAGE });
    expect(maxPages(3)).toBe(100);
  });

  it('several have what they start with, and an equal part of the rest [component.memory]', async () => {
    const body = `${memory('a', 10)} ${memory('b', 1)} ${instance('a')} ${instance('b')} ${instance('b')}`;
    const { maxPages } = await shares(body, { memory_bytes: 102 * PAGE + 5 });
    expect([maxPages(10), maxPages(1), maxPages(1)]).toEqual([40, 31, 31]);
  });

  it('a module counts as often as it is instantiated, in nested components too [component.memory]', async () => {
    const body = `(component $n ${memory('a', 1)} ${instance('a')} ${instance('a')})
      (instance (instantiate $n)) (instance (instantiate $n)) ${memory('unused', 50)}`;
    const { maxPages } = await shares(body, { memory_bytes: 40 * PAGE });
    expect(maxPages(1)).toBe(10);
  });

  it('none that starts with too much together [component.memory]', async () => {
    const body = `${memory('a', 60)} ${instance('a')} ${instance('a')}`;
    await expect(shares(body, { memory_bytes: 100 * PAGE })).rejects.toThrow(
      `the component starts with ${120 * PAGE} bytes of memory, limits.memory_bytes is ${100 * PAGE}`,
    );
  });

  it('tables likewise [component.memory]', async () => {
    const body = `${table('a', 100)} ${table('b', 300)} ${instance('a')} ${instance('b')}`;
    const { maxElements } = await shares(body, { table_elements: 1000 });
    expect([maxElements(100), maxElements(300)]).toEqual([400, 600]);
    await expect(shares(body, { table_elements: 399 })).rejects.toThrow(
      'the component has tables of 400 entries, limits.table_elements is 399',
    );
  });
});

describe('two memories of a running component', () => {
  /** Grows the memory of two instances as far as it goes; traps unless both have the given pages then. */
  const greedy = (pages: number) => `(component
    (core module $store (memory 1) (func (export "grow") (result i32)
      (loop $more (br_if $more (i32.ge_s (memory.grow (i32.const 1)) (i32.const 0)))) (memory.size)))
    (core instance $a (instantiate $store))
    (core instance $b (instantiate $store))
    (core module $main
      (import "a" "grow" (func $a (result i32))) (import "b" "grow" (func $b (result i32)))
      (func (export "run") (result i32)
        (if (i32.ne (call $a) (i32.const ${pages})) (then unreachable))
        (if (i32.ne (call $b) (i32.const ${pages})) (then unreachable))
        (i32.const 0)))
    (core instance $i (instantiate $main (with "a" (instance $a)) (with "b" (instance $b))))
    (alias core export $i "run" (core func $run))
    (func $entry (result (result)) (canon lift (core func $run)))
    (export "run" (func $entry)))`;

  it('stay inside the limit together [component.memory]', { timeout: GENEROUS_MS }, async () => {
    const limits = { memory_bytes: 64 * PAGE };
    expect(await runFixture(await fromText(greedy(32)), { limits })).toMatchObject({ reason: 'exit', exitCode: 0 });
    expect(await runFixture(await fromText(greedy(33)), { limits })).toMatchObject({ reason: 'trap' });
  });
});
