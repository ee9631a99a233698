/*
 * Modules that name the first index past the end of one of their index spaces: invalid as written. The preemption pass
 * adds a type, two functions and a memory, so that in those spaces such an index exists once the pass has run.
 */

const run = (body: string) => `(func (export "run") (result i32) ${body} (i32.const 0))`;
const memory = '(memory (export "memory") 1)';

/** The text of each module, by what it names. */
export const namesPastTheEnd: Readonly<Record<string, string>> = {
  'a type, of a function': `(type (func (result i32))) ${memory} (func (type 1)) ${run('')}`,
  'a type, of a block': `(type (func (result i32))) ${memory} ${run('block (type 1) end')}`,
  'a type, of an indirect call': `(type (func (result i32))) (table 1 funcref) ${memory}
    ${run('i32.const 0 call_indirect (type 1)')}`,
  'a type, of a tag': `(type (func (result i32))) (tag (type 1)) ${memory} ${run('')}`,
  'a function, in a call': `${memory} ${run('call 1')}`,
  'a function, in a tail call': `${memory} (func return_call 2) ${run('')}`,
  'a function, as a reference': `${memory} (elem declare func 1) ${run('(drop (ref.func 1))')}`,
  'a function, in a table': `(table 1 funcref) (elem (i32.const 0) func 1) ${memory} ${run('')}`,
  'a function, in a global': `(global funcref (ref.func 1)) ${memory} ${run('')}`,
  'a function, as an export': `(export "_start" (func 1)) ${memory} ${run('')}`,
  'a function, as the start': `(start 1) ${memory} ${run('')}`,
  'a memory, in a load': `${memory} ${run('(drop (i32.load 1 (i32.const 0)))')}`,
  'a memory, in a store': `${memory} ${run('(i32.store 1 (i32.const 4) (i32.const 7))')}`,
  'a memory, in an atomic wait': `${memory}
    ${run('(drop (memory.atomic.wait32 1 (i32.const 64) (i32.const 0) (i64.const -1)))')}`,
  'a memory, in a copy': `${memory} ${run('(memory.copy 1 0 (i32.const 0) (i32.const 0) (i32.const 8))')}`,
  'a memory, in a module without one': run('(drop (i32.load (i32.const 0)))'),
  'a memory, of a data segment': `${memory} (data (memory 1) (i32.const 0) "held") ${run('')}`,
  'a memory, as an export': `${run('')} (export "memory" (memory 0))`,
  'a table': `(table 1 funcref) ${memory} ${run('(drop (table.get 1 (i32.const 0)))')}`,
  'a global': `(global i32 (i32.const 0)) ${memory} ${run('(drop (global.get 1))')}`,
  'a tag': `(tag) ${memory} ${run('(throw 1)')}`,
  'a data segment': `${memory} (data "a") ${run('(data.drop 1)')}`,
  'an element segment': `(elem func 0) ${memory} ${run('(elem.drop 1)')}`,
};
