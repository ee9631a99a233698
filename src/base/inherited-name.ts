/** Whether every JavaScript object has a property of this name, such as `constructor`; users may not choose such names. */
export function isInheritedName(text: string): boolean {
  return text in Object.prototype;
}
