/** A JSON Schema written as a literal (`as const`), as far as types can follow it. */
type SchemaLiteral = { readonly [keyword: string]: unknown };

interface Primitives {
  string: string;
  number: number;
  integer: number;
  boolean: boolean;
  null: null;
}

type ObjectOf<Properties, Required extends string> = {
  -readonly [Key in keyof Properties as Key extends Required ? Key : never]: FromSchema<Properties[Key]>;
} & {
  -readonly [Key in keyof Properties as Key extends Required ? never : Key]?: FromSchema<Properties[Key]>;
};

type RequiredKeys<Schema> = Schema extends { readonly required: readonly (infer Key)[] } ? Extract<Key, string> : never;

type FromType<Schema, Type> = Type extends keyof Primitives
  ? Primitives[Type]
  : Type extends 'array'
    ? Schema extends { readonly items: infer Items }
      ? FromSchema<Items>[]
      : unknown[]
    : Type extends 'object'
      ? Schema extends { readonly properties: infer Properties }
        ? ObjectOf<Properties, RequiredKeys<Schema>>
        : Record<string, unknown>
      : unknown;

/**
 * The TypeScript type of the values that a schema describes. What types cannot follow (`$ref`, `allOf`, conditions) is
 * `unknown`; the host checks every call against the whole schema all the same.
 */
export type FromSchema<Schema> = Schema extends SchemaLiteral
  ? Schema extends { readonly const: infer Value }
    ? Value
    : Schema extends { readonly enum: readonly (infer Value)[] }
      ? Value
      : Schema extends { readonly anyOf: readonly (infer Option)[] }
        ? FromSchema<Option>
        : Schema extends { readonly oneOf: readonly (infer Option)[] }
          ? FromSchema<Option>
          : Schema extends { readonly type: readonly (infer Type)[] }
            ? FromType<Schema, Type>
            : Schema extends { readonly type: infer Type }
              ? FromType<Schema, Type>
              : unknown
  : unknown;
