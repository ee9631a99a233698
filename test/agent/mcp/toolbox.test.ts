import { describe, expectTypeOf, it } from 'vitest';
import type { FromSchema, McpToolbox, ToolboxTool } from '../../../src/index.ts';

// tsc is what fails here; at run time these tests only have to load.
type Of<Schema> = FromSchema<Schema>;

describe('the type of a schema literal', () => {
  it('of the primitive types', () => {
    expectTypeOf<Of<{ readonly type: 'string' }>>().toEqualTypeOf<string>();
    expectTypeOf<Of<{ readonly type: 'number' }>>().toEqualTypeOf<number>();
    expectTypeOf<Of<{ readonly type: 'integer' }>>().toEqualTypeOf<number>();
    expectTypeOf<Of<{ readonly type: 'boolean' }>>().toEqualTypeOf<boolean>();
    expectTypeOf<Of<{ readonly type: 'null' }>>().toEqualTypeOf<null>();
  });

  it('of several types is their union', () => {
    expectTypeOf<Of<{ readonly type: readonly ['string', 'null'] }>>().toEqualTypeOf<string | null>();
    expectTypeOf<
      Of<{ readonly anyOf: readonly [{ readonly type: 'string' }, { readonly type: 'number' }] }>
    >().toEqualTypeOf<string | number>();
    expectTypeOf<
      Of<{ readonly oneOf: readonly [{ readonly type: 'boolean' }, { readonly const: 'auto' }] }>
    >().toEqualTypeOf<boolean | 'auto'>();
  });

  it('of enum and const is their values', () => {
    expectTypeOf<Of<{ readonly type: 'string'; readonly enum: readonly ['asc', 'desc'] }>>().toEqualTypeOf<
      'asc' | 'desc'
    >();
    expectTypeOf<Of<{ readonly const: 3 }>>().toEqualTypeOf<3>();
  });

  it('of arrays follows their items', () => {
    expectTypeOf<Of<{ readonly type: 'array' }>>().toEqualTypeOf<unknown[]>();
    expectTypeOf<Of<{ readonly type: 'array'; readonly items: { readonly type: 'string' } }>>().toEqualTypeOf<
      string[]
    >();
  });

  it('of objects has required and optional properties, nested too', () => {
    const schema = {
      type: 'object',
      properties: {
        owner: { type: 'string' },
        labels: { type: 'array', items: { type: 'string' } },
        range: { type: 'object', properties: { from: { type: 'integer' } }, required: ['from'] },
        free: { type: 'object' },
      },
      required: ['owner'],
    } as const;
    type Params = Of<typeof schema>;
    expectTypeOf<{ owner: string }>().toExtend<Params>();
    expectTypeOf<{ labels: string[] }>().not.toExtend<Params>();
    expectTypeOf<{ owner: number }>().not.toExtend<Params>();
    expectTypeOf<Params['owner']>().toEqualTypeOf<string>();
    expectTypeOf<Params['labels']>().toEqualTypeOf<string[] | undefined>();
    expectTypeOf<NonNullable<Params['range']>['from']>().toEqualTypeOf<number>();
    expectTypeOf<Params['free']>().toEqualTypeOf<Record<string, unknown> | undefined>();
  });

  it('of what types cannot follow is unknown, never any', () => {
    expectTypeOf<Of<{ readonly $ref: '#/$defs/x' }>>().toEqualTypeOf<unknown>();
    expectTypeOf<Of<{ readonly allOf: readonly [] }>>().toEqualTypeOf<unknown>();
    expectTypeOf<Of<true>>().toEqualTypeOf<unknown>();
    expectTypeOf<Of<unknown>>().toEqualTypeOf<unknown>();
  });

  it('types the parameters of a toolbox’s tool, and leaves them open without one', () => {
    const sum = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] } as const;
    const typed = (box: McpToolbox) => box.tool('everything_get-sum', sum);
    expectTypeOf(typed).returns.toExtend<ToolboxTool<{ a: number }>>();
    expectTypeOf<Parameters<ReturnType<typeof typed>['call']>[0]['a']>().toEqualTypeOf<number>();
    expectTypeOf<{ a: string }>().not.toExtend<Parameters<ReturnType<typeof typed>['call']>[0]>();
    const open = (box: McpToolbox) => box.tool('everything_echo');
    expectTypeOf<Parameters<ReturnType<typeof open>['call']>[0]>().toEqualTypeOf<Record<string, unknown>>();
  });
});
