import { cutText } from '../../../base/text.ts';
import { ModuleError } from '../../abi/guest-module.ts';
import { WasmReader } from '../wasm-binary.ts';

/**
 * Allowed characters of names. jco copies the names of core imports and exports into JavaScript unescaped, so a quote
 * could inject code into this process.
 */
const SHOWN_NAME_CHARS = 60;
const STRICT_NAME = /^[\w.:/@\-[\]#$ |]*$/;

/** Names with a special meaning as properties of JavaScript objects or promises. */
const TAKEN = new Set(['__proto__', 'then']);

/** Remaining budgets of a whole component, including nested ones. */
export interface Budget {
  definitions: number;
}

const wholeBudget = (): Budget => ({ definitions: MAX_DEFINITIONS });

/** Reader of a component and its core modules: canonical numbers, admitted names, bounded counts. */
export class ComponentReader extends WasmReader {
  readonly #budget: Budget;
  #depth: number;

  constructor(bytes: Uint8Array, budget: Budget = wholeBudget(), depth = 0) {
    super(bytes);
    this.#budget = budget;
    this.#depth = depth;
  }

  /** A part that is to be read by itself: a section, or what is nested in one. */
  part(length: number): ComponentReader {
    return new ComponentReader(this.slice(length), this.#budget, this.#depth);
  }

  /** Reads something that may hold things of its own kind. */
  nested<T>(read: () => T): T {
    if (++this.#depth > MAX_NESTING) {
      throw new ModuleError(`the component nests components or types more than ${MAX_NESTING} deep`);
    }
    const found = read();
    this.#depth--;
    return found;
  }

  /** All that is left, to be read one level deeper. */
  rest(): { readonly reader: ComponentReader; readonly bytes: Uint8Array } {
    return this.nested(() => {
      const bytes = this.slice(this.left);
      return { reader: new ComponentReader(bytes, this.#budget, this.#depth), bytes };
    });
  }

  /** Reads an unsigned LEB128 of 32 bits. Longer encodings are rejected, because readers disagree about them. */
  u32(): number {
    let result = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      if (shift === 28 && byte > 0x0f) break;
      result += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return result;
    }
    throw new ModuleError('malformed component: LEB128 integer does not fit into 32 bits');
  }

  /** A type's index where a primitive type could stand: a signed LEB128 of 33 bits, and not a negative one. */
  typeIndex(): number {
    let result = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      result += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) {
        if (byte & 0x40 || result >= 2 ** 32) break;
        return result;
      }
    }
    throw new ModuleError('malformed component: neither a known type nor a type index');
  }

  override name(): string {
    const length = this.u32();
    if (length > MAX_NAME_BYTES)
      throw new ModuleError(`the component has a name of ${length} bytes, at most ${MAX_NAME_BYTES} are allowed`);
    const text = Buffer.from(this.slice(length)).toString('latin1');
    if (!STRICT_NAME.test(text) || TAKEN.has(text))
      throw new ModuleError(`the component has a name that is not allowed: ${shown(text)}`);
    return text;
  }

  /** A vector whose items count against the component's budget. */
  list<T>(item: () => T): T[] {
    const count = this.u32();
    this.#budget.definitions -= count;
    if (this.#budget.definitions < 0)
      throw new ModuleError(`the component has more than ${MAX_DEFINITIONS} definitions`);
    const items: T[] = [];
    for (let left = count; left > 0; left--) items.push(item());
    return items;
  }

  option<T>(item: () => T): T | undefined {
    const present = this.byte();
    if (present > 1) throw this.unknown('option', present);
    return present === 1 ? item() : undefined;
  }

  exactly(expected: number, what: string): void {
    const found = this.byte();
    if (found !== expected) throw this.unknown(what, found);
  }

  /** What follows must be nothing: bytes that only some readers see are refused. */
  end(what: string): void {
    if (!this.done) throw new ModuleError(`malformed component: extra bytes at the end of the ${what}`);
  }

  unknown(what: string, found: number): ModuleError {
    return new ModuleError(`malformed component: unknown ${what} (0x${found.toString(16).padStart(2, '0')})`);
  }
}

/** Escapes a rejected name: untrusted text for a terminal. */
function shown(text: string): string {
  const short = cutText(text, SHOWN_NAME_CHARS);
  return JSON.stringify(short).replaceAll(/[^\x20-\x7e…]/g, (char) => `\\x${char.charCodeAt(0).toString(16)}`);
}

// Limits on the structure of components, far above the output of toolchains.

/** Nesting of components and of types. */
export const MAX_NESTING = 24;

/** Imports, exports, instances, types, aliases and so on, over all nested components and core modules. */
export const MAX_DEFINITIONS = 500_000;

export const MAX_NAME_BYTES = 1024;

/** Instantiated components; a component that instantiates others twice doubles their number. */
export const MAX_COMPONENT_INSTANCES = 256;

/** Instantiated core modules. */
export const MAX_CORE_INSTANCES = 256;

/** Definitions of components, counted once more for each time that their component is instantiated. */
export const MAX_LINKED_DEFINITIONS = 1_000_000;

/** Imports of the outer component. */
export const MAX_IMPORTS = 256;

/** Parts of one `spear:host` type with all references expanded. */
export const MAX_TYPE_PARTS = 200;

/** Type section of one core module, which is parsed before the engine validates it. */
export const MAX_TYPE_SECTION_BYTES = 1024 * 1024;

/** A shim or fixup module has a few bytes for each import. */
export const MAX_SHIM_BYTES = 256 * 1024;
