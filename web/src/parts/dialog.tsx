import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
    title: string;
    children: ComponentChildren;
    /** Called when the visitor presses Escape; without it the dialog stays. */
    close?: () => void;
}

/** A native dialog over the page. The focus returns where it came from. */
export function Dialog({ title, children, close }: Props) {
    const element = useRef<HTMLDialogElement>(null);
    useEffect(() => {
        const dialog = element.current;
        dialog?.showModal();
        return () => dialog?.close();
    }, []);
    return (
        <dialog
            ref={element}
            aria-labelledby="dialog-title"
            onCancel={(event) => {
                event.preventDefault();
                close?.();
            }}
        >
            <h2 id="dialog-title">{title}</h2>
            {children}
        </dialog>
    );
}
