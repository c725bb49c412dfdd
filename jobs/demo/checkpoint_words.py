"""Text on which the tokenizers of small checkpoints are trained: everyday Italian, some English, prompt words."""

from __future__ import annotations

SENTENCES: tuple[str, ...] = (
    "Guarda il video e scegli la frase che descrive la scena.",
    "Una sola delle due affermazioni è vera: rispondi soltanto con la lettera.",
    "Rispondi in italiano con una frase breve su quello che si vede nel video.",
    "Domanda: chi entra nella stanza? Risposta:",
    "Affermazione A) Affermazione B) La risposta corretta è A. La risposta corretta è B.",
    "Nella scena ci sono degli ombrelli. Nella scena non ci sono ombrelli.",
    "A metà del video il cane corre verso il portone. Il gatto dorme sul divano.",
    "La donna con il cappello rosso porta una borsa e parla al telefono.",
    "L'uomo anziano legge il giornale seduto sulla panchina del parco.",
    "Due bambini giocano a pallone davanti alla casa, mentre la madre li guarda dalla finestra.",
    "Il cuoco taglia le verdure, le mette nella pentola e aggiunge un po' di sale.",
    "Prima piove, poi esce il sole; alla fine della strada si vede il mare.",
    "Quanto dura l'azione? Dura circa dieci secondi, forse meno di mezzo minuto.",
    "Perché la ragazza piange? Perché ha perso il treno e non sa che cosa fare.",
    "Dove si trova la bicicletta? Si trova accanto all'albero, vicino al muro bianco.",
    "Che cosa succederebbe se la macchina si fermasse? Gli altri potrebbero attraversare.",
    "Non si può sapere, il video non lo mostra. Nessuno risponde alla porta.",
    "Il ragazzo apre la scatola blu e trova una lettera, una chiave e tre monete.",
    "La squadra festeggia la vittoria con la bandiera verde; il pubblico applaude.",
    "Sul tavolo ci sono una bottiglia di acqua, due bicchieri, un piatto e il pane.",
    "Le persone aspettano l'autobus alla fermata. Qualcuno saluta con la mano.",
    "Il treno parte dalla stazione alle nove di sera e arriva la mattina dopo.",
    "La musica è allegra, la gente balla, il vento muove le foglie degli alberi.",
    "Read the caption and answer the question about the image in one short sentence.",
    "Choose the correct option and reply with its letter only: A, B, C or D.",
    "Is the claim entailed or contradicted by the picture? Explain your answer.",
    "The man in the picture is holding a small dog; the woman is looking at the sea.",
    "What does the text mean? Translate the sentence into English, German or French.",
    "You are given an image of a scene with objects of several colours and shapes.",
    "The red cube is to the left of the blue sphere, behind the large green cylinder.",
    "Answer with the name of the object. Describe the scene briefly. Yes. No. True. False.",
)
"""Whole sentences: words with their leading blank, as a chat prompt holds them."""
