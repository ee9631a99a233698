import { fromText } from '../../../support/component-text.ts';

/** A name as the text format writes it, whatever is in it. */
const quoted = (name: string) =>
  `"${[...Buffer.from(name)].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('')}"`;

const run = '(func $run (result (result)) (canon lift (core func $f))) (export "run" (func $run))';
const answer = '(result i32) i32.const 0';

/** Where jco writes a name of the guest into JavaScript: each a component that is valid but for that name. */
export const placesOfNames: Readonly<Record<string, (name: string) => string>> = {
  'an export of a core module': (name) => `
    (core module $m (func (export ${quoted(name)}) ${answer}))
    (core instance $i (instantiate $m))
    (alias core export $i ${quoted(name)} (core func $f)) ${run}`,
  'the module of a core import': (name) => `
    (core module $a (func (export "f") ${answer}))
    (core module $m (import ${quoted(name)} "f" (func $x (result i32))) (func (export "run") (result i32) call $x))
    (core instance $j (instantiate $a))
    (core instance $i (instantiate $m (with ${quoted(name)} (instance $j))))
    (alias core export $i "run" (core func $f)) ${run}`,
  'the field of a core import': (name) => `
    (core module $a (func (export "f") ${answer}))
    (core module $m (import "a" ${quoted(name)} (func $x (result i32))) (func (export "run") (result i32) call $x))
    (core instance $k (instantiate $a))
    (alias core export $k "f" (core func $g))
    (core instance $j (export ${quoted(name)} (func $g)))
    (core instance $i (instantiate $m (with "a" (instance $j))))
    (alias core export $i "run" (core func $f)) ${run}`,
  'a memory of a core module': (name) => `
    (core module $a (memory (export ${quoted(name)}) 1))
    (core module $m (import "a" "memory" (memory 1)) (func (export "run") ${answer}))
    (core instance $k (instantiate $a))
    (alias core export $k ${quoted(name)} (core memory $g))
    (core instance $j (export "memory" (memory $g)))
    (core instance $i (instantiate $m (with "a" (instance $j))))
    (alias core export $i "run" (core func $f)) ${run}`,
  'what is called after a return': (name) => `
    (core module $m (memory (export "m") 1) (func (export "f") ${answer}) (func (export ${quoted(name)}) (param i32)))
    (core instance $i (instantiate $m))
    (alias core export $i "f" (core func $f))
    (alias core export $i ${quoted(name)} (core func $p))
    (func $run (result (result)) (canon lift (core func $f) (post-return $p))) (export "run" (func $run))`,
  'a core module of a nested component': (name) => `
    (component $n
      (core module $m (func (export ${quoted(name)}) ${answer}))
      (core instance $i (instantiate $m))
      (alias core export $i ${quoted(name)} (core func $f)) ${run})
    (instance $i (instantiate $n))
    (alias export $i "run" (func $r)) (export "run" (func $r))`,
};

/** Names that are refused though jco does not write them, or refuses them itself: none is worth a look. */
export const otherPlacesOfNames: Readonly<Record<string, (name: string) => string>> = {
  'an export of a core module that nobody uses': (name) => `
    (core module $m (func (export "f") ${answer}) (func (export ${quoted(name)})))
    (core instance $i (instantiate $m))
    (alias core export $i "f" (core func $f)) ${run}`,
  'an export of core items': (name) => `
    (core module $m (func (export "f") ${answer}))
    (core instance $k (instantiate $m))
    (alias core export $k "f" (core func $g))
    (core instance $i (export ${quoted(name)} (func $g)))
    (alias core export $i ${quoted(name)} (core func $f)) ${run}`,
  'an export of the component': (name) => `
    (core module $m (func (export "f") ${answer}))
    (core instance $i (instantiate $m))
    (alias core export $i "f" (core func $f))
    (func $run (result (result)) (canon lift (core func $f)))
    (export ${quoted(name)} (func $run))`,
  'an import of the component': (name) => `(import ${quoted(name)} (func))`,
  'a parameter': (name) => `(import "f" (func (param ${quoted(name)} string)))`,
  'a field of a record': (name) => `(type (record (field ${quoted(name)} u8)))`,
  'a case of a variant': (name) => `(type (variant (case ${quoted(name)})))`,
  'a case of an enum': (name) => `(type (enum ${quoted(name)}))`,
  'a flag': (name) => `(type (flags ${quoted(name)}))`,
  'an export of an instance type': (name) => `(type (instance (export ${quoted(name)} (func))))`,
  'an import of a component type': (name) => `(type (component (import ${quoted(name)} (func))))`,
  'an import of a module type': (name) => `(core type (module (import ${quoted(name)} "f" (func))))`,
  'an argument of a component': (name) => `
    (component $n (import ${quoted(name)} (func)))
    (import "f" (func $f))
    (instance (instantiate $n (with ${quoted(name)} (func $f))))`,
  'an export of an instance': (name) => `(import "f" (func $f)) (instance (export ${quoted(name)} (func $f)))`,
};

export const component = (body: string): Promise<Uint8Array> => fromText(`(component ${body})`);
