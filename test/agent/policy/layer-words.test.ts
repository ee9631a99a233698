import { expect, it } from 'vitest';
import { wordsFor } from '../../../src/agent/policy/layer-words.ts';
import { aboutCall, aboutServer, explain } from '../../../src/agent/policy/walk.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { registryWith, sessionWith, taskWith } from './policy-samples.ts';

it('every denial has a fix, and nothing else has [explain.layers]', () => {
  const task = taskWith({ enabled: false, defaultServerIds: ['other'], toolDenylist: ['*'], toolAllowlist: [] });
  const sessions = [sessionWith({ enabled: false }), sessionWith({ serverIds: [], toolAllowlist: ['x'] }), null];
  const pinned = sampleRecord('fs', { namespaces: ['team'], pins: { read: 'a'.repeat(64) } });
  const elsewhere = { servers: new Map([['fs', pinned]]), stale: false, profiles: null };
  const definition = { name: 'read', description: '', inputSchema: {}, outputSchema: null, annotations: null };
  const views = [null, registryWith({}, true), registryWith({ fs: [] }), registryWith({ fs: ['write'] }), elsewhere];
  for (const session of sessions) {
    for (const view of views) {
      const question = aboutCall(view, task, session, 'fs', 'read', definition);
      for (const answer of explain(question)) {
        const { text, fix } = wordsFor(answer, question);
        expect(text).not.toBe('');
        expect(Boolean(fix)).toBe(answer.verdict === 'denies');
      }
    }
  }
});

it('a server that is not there is told with those that are, and the name that may have been meant', () => {
  const view = registryWith({ filesystem: ['*'], git: ['*'] });
  const question = aboutServer(view, taskWith({ defaultServerIds: ['filesytem'] }), sessionWith(), 'filesytem');
  const [, , , answer] = explain(question);
  expect(answer && wordsFor(answer, question)).toEqual({
    text: '"filesytem" is not in the registry; it has "filesystem", "git"; did you mean "filesystem"?',
    fix: 'register "filesytem" (spear servers apply, or a file in --mcp-dir), or correct the id in the task',
  });
});
