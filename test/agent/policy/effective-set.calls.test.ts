import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ToolDefinition } from '../../../src/agent/policy/definition-hash.ts';
import { AllowedCalls } from '../../../src/agent/policy/effective-set.ts';
import { decideCall } from '../../../src/agent/policy/walk.ts';
import { anyRegistry, anySession, anyTask, anyTool, registryWith, taskWith } from './policy-samples.ts';

const definitionOf = (name: string): ToolDefinition => ({
  name,
  description: '',
  inputSchema: {},
  outputSchema: null,
  annotations: null,
});

describe('the calls of a task', () => {
  it('are decided as if each was asked about for the first time, whatever changes between them', () => {
    const asked = fc.record({
      registry: fc.nat({ max: 2 }),
      session: fc.nat({ max: 2 }),
      stale: fc.boolean(),
      server: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      tool: anyTool,
      isDefined: fc.boolean(),
      kind: fc.constantFrom('tool' as const, 'resource' as const, 'prompt' as const, undefined),
    });
    const three = { minLength: 3, maxLength: 3 };
    fc.assert(
      fc.property(
        anyTask,
        fc.array(anyRegistry, three),
        fc.array(fc.option(anySession, { nil: null }), three),
        fc.array(asked, { maxLength: 40 }),
        (task, registries, sessions, questions) => {
          const allowed = new AllowedCalls(task);
          const definitions = new Map<string, ToolDefinition>();
          for (const { registry, session, stale, server, tool, isDefined, kind } of questions) {
            const { servers } = registries[registry] as (typeof registries)[number];
            const view = { servers, stale, profiles: null };
            const definition = isDefined ? (definitions.get(tool) ?? definitionOf(tool)) : null;
            if (definition !== null) definitions.set(tool, definition);
            const chosen = sessions[session] ?? null;
            expect(allowed.decide(view, chosen, server, tool, definition, kind)).toEqual(
              decideCall(view, task, chosen, server, tool, definition, kind),
            );
          }
        },
      ),
    );
  });

  it('are denied at once when the registry that allowed them is another, too old, or gone', () => {
    const allowed = new AllowedCalls(taskWith({ defaultServerIds: ['fs'] }));
    const view = registryWith({ fs: ['read_file'] });
    const reason = (now: typeof view | null) => {
      const decision = allowed.decide(now, null, 'fs', 'read_file', null, undefined);
      return decision.allowed ? 'allowed' : decision.reason;
    };
    expect(reason(view)).toBe('allowed');
    expect(reason({ ...view, stale: true })).toBe('stale_registry');
    expect(reason(null)).toBe('registry_not_ready');
    expect(reason(registryWith({ fs: [] }))).toBe('deny_all');
    expect(reason(registryWith({}))).toBe('unknown_server');
    expect(reason(view)).toBe('allowed');
  });
});
