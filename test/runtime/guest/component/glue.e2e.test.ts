import { describe, expect, it } from 'vitest';
import { evaluateGlue } from '../../../../src/runtime/guest/component/glue.ts';
import { scripted } from '../../../support/chat-host.ts';
import { buildComponent, fromText } from '../../../support/component-text.ts';
import { guestModule } from '../../../support/guest-text.ts';
import { runFixture } from '../../../support/run-fixture.ts';

/** A component is compiled first, on a machine that is busy with other things. */
const slow = { timeout: 120_000 };

/** What jco writes around the code of a component. */
const glue = (body: string) => `"use components";
export function instantiate(getCoreModule, imports, instantiateCore = WebAssembly.instantiate) {
${body}
}

export const _util = {
  
}
`;

const evaluated = (body: string) =>
  evaluateGlue(glue(body))(
    () => expect.fail(),
    {},
    () => expect.fail(),
  );

describe('the code that was generated for a component', () => {
  it('is called with modules, imports and a way to instantiate', () => {
    const instantiate = evaluateGlue(glue('return { module: getCoreModule("a"), imports, core: instantiateCore() };'));
    const [module, instance, imports] = [{}, {}, { 'spear:host/log': {} }];
    const made = instantiate(
      () => module as WebAssembly.Module,
      imports,
      () => instance as WebAssembly.Instance,
    );
    expect(made).toEqual({ module, imports, core: instance });
    expect(made).toHaveProperty('imports', imports);
  });

  it('is strict code without a process, a file, a network or a console of the host', () => {
    expect(
      evaluated('return Array.of(typeof process, typeof require, typeof fetch, typeof module, this, import.meta.url);'),
    ).toEqual(['undefined', 'undefined', 'undefined', 'undefined', undefined, 'component:']);
    expect(evaluated('console.error("x"); console.debug("y"); return "silent";')).toBe('silent');
  });

  it('keeps the names of a component, whatever they look like', slow, async () => {
    expect(evaluated("return 'import.meta.url';")).toBe('import.meta.url');
    const bytes = await fromText(`(component (core module $m (func (export "import.meta.url") (result i32) i32.const 0))
      (core instance $i (instantiate $m)) (alias core export $i "import.meta.url" (core func $f))
      (func $run (result (result)) (canon lift (core func $f))) (export "run" (func $run)))`);
    expect(await runFixture(bytes)).toMatchObject({ reason: 'exit', exitCode: 0 });
  });

  it('is a fault of the component if jco could make none of its names', slow, async () => {
    const bytes = await fromText(`(component (core module $m (func (export "f") (result i32) i32.const 0))
      (core instance $i (instantiate $m)) (alias core export $i "f" (core func $f))
      (func $run (result (result)) (canon lift (core func $f))) (export "run" (func $run)) (export "arguments" (func $run)))`);
    expect(await runFixture(bytes)).toMatchObject({
      reason: 'module',
      message: expect.stringMatching(/rename the exports of the component$/),
    });
  });

  it('cannot load other code', async () => {
    await expect(evaluated('return import("node:fs");') as unknown as Promise<unknown>).rejects.toThrow();
  });

  it.each([
    ['has no entry', 'export const other = 1;'],
    ['exports something else too', `${glue('')}\nexport const more = 1;`],
    ['is empty', ''],
  ])('is refused if it %s: another jco made it', (_, text) => {
    expect(() => evaluateGlue(text)).toThrow('another version of jco made it');
  });
});

describe('a component that goes through the glue', () => {
  it('because of its strings has the same calls, results and counts', slow, async () => {
    const utf16 = (text: string) =>
      [...Buffer.from(text, 'utf16le')].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('');
    const core = guestModule({
      calls: ['cchat_create', 'cchat_write_msg', 'cchat_send', 'cchat_recv', 'cchat_close', 'log', 'spear_feature'],
      body: `
        (data (i32.const 128) "${utf16('user')}") (data (i32.const 144) "${utf16('grüße 🚀')}")
        (data (i32.const 256) "${utf16('cchat')}")
        (func $ok (if (i32.load8_u (i32.const 64)) (then unreachable)))
        (func (export "run") (result i32)
          (if (i32.eqz (call $spear-feature (i32.const 256) (i32.const 5))) (then unreachable))
          (call $cchat-create (i32.const 64)) (call $ok)
          (call $cchat-write-msg (i32.const 1000) (i32.const 128) (i32.const 4) (i32.const 144) (i32.const 8) (i32.const 64))
          (call $ok)
          (call $cchat-send (i32.const 1000) (i32.const 0) (i32.const 64)) (call $ok)
          (call $cchat-recv (i32.load (i32.const 68)) (i32.const 64)) (call $ok)
          (call $log (i32.const 2) (i32.load (i32.const 68)) (i32.load (i32.const 72)) (i32.const 64)) (call $ok)
          (call $cchat-close (i32.const 4242) (i32.const 64))
          (i32.eqz (i32.and (i32.eq (i32.load8_u (i32.const 64)) (i32.const 1))
                            (i32.eq (i32.load8_u (i32.const 65)) (i32.const 4)))))`,
    });
    const backend = await scripted([{ reply: { content: 'hello' }, repeat: true }]);
    const guest = await buildComponent(core, { stringEncoding: 'utf16' });
    const run = await runFixture(guest, { backend, verbose: true });
    expect(run).toMatchObject({
      reason: 'exit',
      exitCode: 0,
      hostcalls: {
        cchat_close: 1,
        cchat_create: 1,
        cchat_recv: 1,
        cchat_send: 1,
        cchat_write_msg: 1,
        log: 1,
        spear_feature: 1,
      },
    });
    expect(backend.requests[0]?.messages).toEqual([{ role: 'user', content: 'grüße 🚀' }]);
    expect(run.stdout).toContain('"content":"hello"');
    expect(run.notices.filter((text) => text.startsWith('component: jco glue, because'))).toHaveLength(1);
  });
});
