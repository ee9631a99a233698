import { ModuleError } from '../../abi/guest-module.ts';
import { MAX_TYPE_PARTS } from './component-reader.ts';
import type { Alias, Declaration, ExternType, TypeDefinition, ValueType } from './type-binary.ts';

/** Type, with the scope of its indices. */
export interface ScopedType {
  readonly definition: TypeDefinition;
  readonly scope: TypeScope;
}

/** Exports of an instance, as its type declares them. */
export type DeclaredItem =
  | { readonly sort: 'func' | 'type'; readonly type: ScopedType }
  | { readonly sort: 'instance'; readonly items: DeclaredItems }
  | { readonly sort: 'other' };

export type DeclaredItems = ReadonlyMap<string, DeclaredItem>;

/** The types and typed instances of one component, component type or instance type. */
export class TypeScope {
  readonly #types: ScopedType[] = [];
  readonly #instances: DeclaredItems[] = [];
  readonly #outer: TypeScope | undefined;

  constructor(outer?: TypeScope) {
    this.#outer = outer;
  }

  define(definition: TypeDefinition): void {
    this.#types.push({ definition, scope: this });
  }

  /** Adds an alias of a known type. */
  add(type: ScopedType): void {
    this.#types.push(type);
  }

  type(index: number): ScopedType {
    const found = this.#types[index];
    if (!found) throw new ModuleError(`malformed component: type index ${index} is out of range`);
    return found;
  }

  /** The scope `count` levels up; 0 is this one. */
  outer(count: number): TypeScope {
    if (count === 0) return this;
    if (!this.#outer) throw new ModuleError('malformed component: outer alias beyond the root component');
    return this.#outer.outer(count - 1);
  }

  /** Adds an import or export to the index spaces. Resources are identified by name. */
  declare(extern: ExternType, name: string): DeclaredItem {
    if (extern.sort === 'func') return { sort: 'func', type: this.type(extern.type) };
    if (extern.sort === 'type') {
      const resource: ScopedType = { definition: { form: 'resource', name }, scope: this };
      const type = extern.equals === 'resource' ? resource : this.type(extern.equals);
      this.add(type);
      return { sort: 'type', type };
    }
    if (extern.sort !== 'instance') return { sort: 'other' };
    const items = declaredItems(this.type(extern.type));
    this.#instances.push(items);
    return { sort: 'instance', items };
  }

  alias(alias: Alias): void {
    if (alias.from === 'outer') {
      if (alias.sort === 'type') this.add(this.outer(alias.count).type(alias.index));
      return;
    }
    const item = this.#instances[alias.instance]?.get(alias.name);
    if (!item) throw new ModuleError(`malformed component: alias of ${alias.name}, which the instance does not export`);
    if (item.sort === 'type') this.add(item.type);
    if (item.sort === 'instance') this.#instances.push(item.items);
  }
}

const known = new WeakMap<ScopedType, DeclaredItems>();

/** Exports of an instance type, memoized. */
function declaredItems(type: ScopedType): DeclaredItems {
  const items = known.get(type) ?? itemsOf(type);
  known.set(type, items);
  return items;
}

function itemsOf({ definition, scope }: ScopedType): DeclaredItems {
  if (definition.form !== 'instance')
    throw new ModuleError('malformed component: an instance whose type is not an instance type');
  const inner = new TypeScope(scope);
  const items = new Map<string, DeclaredItem>();
  for (const declaration of definition.declarations) takeIn(declaration, inner, items);
  return items;
}

function takeIn(declaration: Declaration, scope: TypeScope, items: Map<string, DeclaredItem>): void {
  if (declaration.kind === 'type') scope.define(declaration.type);
  else if (declaration.kind === 'alias') scope.alias(declaration.alias);
  else if (declaration.kind === 'export')
    items.set(declaration.name, scope.declare(declaration.type, declaration.name));
}

/** Text of a type; two types are equal exactly if their texts are. */
export function typeText(type: ScopedType): string {
  return new TypeWriter().definition(type);
}

/** What a type names itself; each part may name a type of many parts again. */
function partsOf(definition: TypeDefinition): number {
  if ('labels' in definition) return definition.labels.length;
  if ('fields' in definition) return definition.fields.length;
  if ('cases' in definition) return definition.cases.length;
  if ('params' in definition) return definition.params.length;
  return definition.form === 'tuple' ? definition.of.length : 0;
}

class TypeWriter {
  #left = MAX_TYPE_PARTS;

  definition({ definition, scope }: ScopedType): string {
    this.#left -= 1 + partsOf(definition);
    if (this.#left < 0) throw new ModuleError(`the component has a type of more than ${MAX_TYPE_PARTS} parts`);
    const value = (type: ValueType) => this.#value(type, scope);
    const optional = (type: ValueType | undefined) => (type === undefined ? '_' : value(type));
    const labeled = (fields: readonly (readonly [string, ValueType])[]) =>
      fields.map(([label, type]) => `${label}: ${value(type)}`).join(', ');
    switch (definition.form) {
      case 'primitive':
      case 'other':
        return definition.name;
      case 'record':
        return `record { ${labeled(definition.fields)} }`;
      case 'variant':
        return `variant { ${definition.cases.map(([label, type]) => (type === undefined ? label : `${label}(${value(type)})`)).join(', ')} }`;
      case 'list':
      case 'option':
        return `${definition.form}<${value(definition.of)}>`;
      case 'tuple':
        return `tuple<${definition.of.map(value).join(', ')}>`;
      case 'flags':
      case 'enum':
        return `${definition.form} { ${definition.labels.join(', ')} }`;
      case 'result':
        if (definition.error !== undefined) return `result<${optional(definition.ok)}, ${value(definition.error)}>`;
        return definition.ok === undefined ? 'result' : `result<${value(definition.ok)}>`;
      case 'own':
      case 'borrow':
        return `${definition.form}<${this.definition(scope.type(definition.resource))}>`;
      case 'resource':
        return definition.name ?? definition.form;
      case 'func': {
        const result = definition.result === undefined ? '' : ` -> ${value(definition.result)}`;
        return `${definition.async ? 'async ' : ''}func(${labeled(definition.params)})${result}`;
      }
      default:
        return definition.form;
    }
  }

  #value(type: ValueType, scope: TypeScope): string {
    return typeof type === 'string' ? type : this.definition(scope.type(type));
  }
}
